// op/activation-inl.h as text, for generated code; made by the build.
#pragma once

namespace epilogue::codegen {

const char* activation_text();

}  // namespace epilogue::codegen
