// The program's command line. CLI11 reads it; command_line.cpp alone includes it, since it costs a compiler
// seven seconds a file.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace epilogue::cli {

// An option of a command; what it says returns the option itself.
class Option {
 public:
  // `most` is the largest value of its variable where that is a whole number.
  explicit Option(CLI::Option& option, std::optional<int64_t> most = {}) : option_(&option), most_(most) {}

  const Option& required(bool value = true) const;
  const Option& at_least(int64_t least) const;              // of a number
  const Option& within(int64_t least, int64_t most) const;  // of a number, both included
  const Option& not_empty() const;                          // of a text, as an unset shell variable gives it
  const Option& one_of(std::initializer_list<const char*> values) const;
  const Option& show_default() const;                       // in the help: the value the variable has now
  const Option& one_value_each() const;                     // of a list: --name A --name B, not --name A B
  const Option& shown_as(const std::string& values) const;  // in the help
  bool given() const;

 private:
  const Option& checked(int64_t least, int64_t most, bool name_both) const;

  CLI::Option* option_;
  std::optional<int64_t> most_;
};

// A handle on a command of the line, as long as the line lives.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const char* name, const char* what) const;
  void require_subcommand() const;

  // The value goes to the variable, which must live until the line was read.
  Option add_option(const char* name, int& value, const char* what) const;
  Option add_option(const char* name, int64_t& value, const char* what) const;
  Option add_option(const char* name, double& value, const char* what) const;
  Option add_option(const char* name, std::string& value, const char* what) const;
  Option add_option(const char* name, std::vector<std::string>& value, const char* what) const;
  Option add_flag(const char* name, bool& value, const char* what) const;

  void footer(const std::string& text) const;
  void callback(std::function<void()> run) const;

 private:
  CLI::App* app_;
};

// What is wrong with a line, in one sentence, and whose --help tells more: "epilogue bench mlp".
struct UsageError : std::runtime_error {
  UsageError(const std::string& what, std::string whose)
      : std::runtime_error(what), command(std::move(whose)) {}
  std::string command;
};

class CommandLine {
 public:
  CommandLine(const char* name, const char* what, const char* version);
  ~CommandLine();

  Command command() const { return Command(*app_); }

  // Reads the line and runs the callbacks of what was chosen: "help profile" is "profile --help". Gives an
  // exit code where help or the version was asked for and printed.
  std::optional<int> run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace epilogue::cli
