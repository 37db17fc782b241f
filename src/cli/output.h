// What commands share in how they speak.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "epilogue/trace.h"

namespace epilogue::cli {

// --format table|json
void add_format_option(Command command, std::string& format);

// Says on stderr what is damaged or missing in the trace, a line each.
void print_problems(const trace::Trace& trace);

// A text for people, on stdout; control characters that come from a file are left out (printable).
void print_text(std::string_view text);

// Throws Error where a file that is read is to be written too, under whatever name.
void check_no_input(const std::string& output, const std::vector<std::string>& inputs);

// Throws Error where a page's name is no FILE.html or FILE.htm, in the name of the option that gave it.
void check_page_name(std::string_view option, std::string_view path);

// One line on stderr, "epilogue: LINE", printable too, in place of a progress line that may stand there.
void tell(std::string_view line);

// Says on stderr what is being done, on one line that the next call replaces; nothing where stderr is no
// terminal. An empty text clears the line.
void progress(std::string_view text);

}  // namespace epilogue::cli
