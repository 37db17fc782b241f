#include "cli/command_line.h"

#include <algorithm>
#include <climits>
#include <utility>

#include <CLI/CLI.hpp>

#include <fmt/format.h>

namespace epilogue::cli {

const Option& Option::required(bool value) const {
  option_->required(value);
  return *this;
}

const Option& Option::at_least(int64_t least) const { return checked(least, INT64_MAX, false); }

const Option& Option::within(int64_t least, int64_t most) const { return checked(least, most, true); }

// CLI11's own checks name a range up to the largest double, in 309 digits. An upper limit that the help does
// not tell of is named where it is broken.
const Option& Option::checked(int64_t least, int64_t most, bool name_both) const {
  most = std::min(most, most_.value_or(most));
  const auto refusal = [least, most, name_both, whole = most_.has_value()](const std::string& text) {
    double number = 0;
    int64_t integer = 0;
    const bool read =
        whole ? CLI::detail::lexical_cast(text, integer) : CLI::detail::lexical_cast(text, number);
    const bool low = whole ? integer < least : !(number >= static_cast<double>(least));  // NaN is
    const bool high = whole ? integer > most : number > static_cast<double>(most);
    if (read && !low && !high) return std::string();
    const std::string expected = name_both || (read && high) ? fmt::format("{} to {}", least, most)
                                                             : fmt::format("at least {}", least);
    return fmt::format("expected {}{}, got {}", whole && !read ? "a whole number, " : "", expected, text);
  };
  option_->check(CLI::Validator(refusal, ""));
  return *this;
}

const Option& Option::not_empty() const {
  const auto refusal = [](const std::string& text) {
    return text.empty() ? std::string("expected a name, got nothing") : std::string();
  };
  option_->check(CLI::Validator(refusal, ""));
  return *this;
}

const Option& Option::one_of(std::initializer_list<const char*> values) const {
  option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end())));
  return *this;
}

const Option& Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

const Option& Option::one_value_each() const {
  option_->allow_extra_args(false);
  return *this;
}

const Option& Option::shown_as(const std::string& values) const {
  option_->option_text(values);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Command Command::add_subcommand(const char* name, const char* what) const {
  return Command(*app_->add_subcommand(name, what));
}

void Command::require_subcommand() const { app_->require_subcommand(1); }

Option Command::add_option(const char* name, int& value, const char* what) const {
  return Option(*app_->add_option(name, value, what), INT_MAX);
}

Option Command::add_option(const char* name, int64_t& value, const char* what) const {
  return Option(*app_->add_option(name, value, what), INT64_MAX);
}

Option Command::add_option(const char* name, double& value, const char* what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::add_option(const char* name, std::string& value, const char* what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::add_option(const char* name, std::vector<std::string>& value, const char* what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::add_flag(const char* name, bool& value, const char* what) const {
  return Option(*app_->add_flag(name, value, what));
}

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }

CommandLine::CommandLine(const char* name, const char* what, const char* version)
    : app_(std::make_unique<CLI::App>(what, name)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
  app_->footer(fmt::format("{} help COMMAND, or COMMAND --help, tells more of one.", name));
}

CommandLine::~CommandLine() = default;

namespace {

// The innermost command that the line chose, and the words that lead to it: "epilogue bench mlp".
std::pair<const CLI::App*, std::string> chosen(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string path = command->get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return {command, path};
}

std::vector<std::string> names_of_commands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands(nullptr)) names.push_back(one->get_name());
  return names;
}

[[noreturn]] void refuse_word(const std::string& word, const CLI::App& command, const std::string& path) {
  throw UsageError(
      fmt::format("'{}' is not known: expected {}", word, fmt::join(names_of_commands(command), ", ")), path);
}

bool is_option(const std::string& word) { return word.starts_with('-'); }

}  // namespace

std::optional<int> CommandLine::run(int argc, char** argv) try {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::ranges::reverse(words);  // as CLI11 wants them
  app_->parse(std::move(words));
  return std::nullopt;
} catch (const CLI::ParseError& error) {
  const auto [command, path] = chosen(*app_);
  const bool has_commands = !names_of_commands(*command).empty();
  if (error.get_exit_code() ==
      0) {  // CLI11 gives help before it complains of a command that it does not know
    const auto unread = app_->remaining(true);
    if (has_commands && !unread.empty() && !is_option(unread.front()))
      refuse_word(unread.front(), *command, path);
    return app_->exit(error);
  }
  // "A subcommand is required" would hide the one that was misspelt, and CLI11 lists an option after its
  // value.
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error);
  const auto unread = extras || missing ? app_->remaining(true) : std::vector<std::string>();
  if (unread.empty()) throw UsageError(error.what(), path);
  if (has_commands) refuse_word(unread.front(), *command, path);
  const auto option = std::ranges::find_if(unread, is_option);
  const std::string& word = option != unread.end() ? *option : unread.front();
  if (extras) throw UsageError(fmt::format("'{}' is not known", word), path);
  throw UsageError(fmt::format("{}, got '{}'", error.what(), word), path);
}

}  // namespace epilogue::cli
