# Writes the formulas of the activations as text into C++:
#   cmake -DSOURCE=<activation-inl.h> -DOUTPUT=<file.cpp> -P embed.cmake
file(READ ${SOURCE} formulas)
file(WRITE ${OUTPUT} "// Generated from src/op/activation-inl.h by src/codegen/embed.cmake.
#include \"codegen/activation_text.h\"

namespace epilogue::codegen {
const char* activation_text() { return R\"text(${formulas})text\"; }
}  // namespace epilogue::codegen
")
