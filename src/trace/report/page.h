// The report's page, from page.html, page.css and the scripts beside it, joined by embed.cmake at build time.
#pragma once

namespace epilogue::trace {

extern const char* const kPageBeforeData;  // up to where the JSON goes
extern const char* const kPageAfterData;

}  // namespace epilogue::trace
