# Joins the page's sources into one HTML file and writes it as C++:
#   cmake -DSOURCE=<this folder> -DOUTPUT=<file.cpp> -P embed.cmake
# The page's Content-Security-Policy names its one script and its one style by hash, which is why the hashes are taken here.
set(SCRIPTS data timeline input details tables main)

# The SHA-256 of a text as "sha256-<base64>": CMake gives hex, of which three bytes make four characters.
function(policy_hash text result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  set(base64 "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}00" ${at} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 character)
      string(APPEND base64 "${character}")
    endforeach()
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)  # 32 bytes are no multiple of three
  set(${result} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

file(READ ${SOURCE}/page.html page)
file(READ ${SOURCE}/page.css style)
set(script "")
foreach(name ${SCRIPTS})
  file(READ ${SOURCE}/${name}.js part)
  string(APPEND script "${part}")
endforeach()
policy_hash("${style}" style_hash)
policy_hash("${script}" script_hash)
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(REPLACE "@DATA@" ")page\";\nconst char* const kPageAfterData = R\"page(" page "${page}")
file(WRITE ${OUTPUT} "// Generated from src/trace/report by embed.cmake.
#include \"trace/report/page.h\"

namespace epilogue::trace {
const char* const kPageBeforeData = R\"page(${page})page\";
}  // namespace epilogue::trace
")
