#include "trace/demangle.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trace/chars.h"

namespace epilogue::trace {
namespace {

constexpr int kMaxDepth = 128;
constexpr int64_t kMaxBytes = 1 << 20;  // of all substitutions kept and expanded
constexpr size_t kMaxText = 1 << 16;    // of any one part

std::string_view builtin_type(char code) {
  switch (code) {
    case 'v':
      return "void";
    case 'b':
      return "bool";
    case 'c':
      return "char";
    case 'a':
      return "signed char";
    case 'h':
      return "unsigned char";
    case 's':
      return "short";
    case 't':
      return "unsigned short";
    case 'i':
      return "int";
    case 'j':
      return "unsigned int";
    case 'l':
      return "long";
    case 'm':
      return "unsigned long";
    case 'x':
      return "long long";
    case 'y':
      return "unsigned long long";
    case 'n':
      return "__int128";
    case 'f':
      return "float";
    case 'd':
      return "double";
    case 'e':
      return "long double";
    case 'z':
      return "...";
    default:
      return {};
  }
}

// Recursive descent over the Itanium grammar. At the end of the text, or at what it does not know, every rule
// returns what it has: stop() moves to the end.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  Demangled read() {
    pos_ = 2;  // _Z
    std::string text = name();
    return {std::move(text), complete_};
  }

 private:
  struct Deeper {
    explicit Deeper(NameReader& reader) : reader_(reader) {
      if (++reader_.depth_ > kMaxDepth) reader_.stop();
    }
    ~Deeper() { --reader_.depth_; }
    NameReader& reader_;
  };

  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool at_end() const { return pos_ >= text_.size(); }
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) stop();
  }
  std::string stop() {
    complete_ = false;
    pos_ = text_.size();
    return {};
  }
  void spend(size_t bytes) {
    budget_ -= static_cast<int64_t>(bytes);
    if (budget_ < 0 || bytes > kMaxText) stop();
  }
  void append(std::string& to, std::string_view part) {
    if (to.size() + part.size() > kMaxText)
      stop();
    else
      to.append(part);
  }
  void remember(const std::string& part) {
    spend(part.size() + 1);
    if (budget_ >= 0) substitutions_.push_back(part);
  }

  size_t number() {
    size_t value = 0;
    while (is_digit(peek())) {
      value = value * 10 + static_cast<size_t>(peek() - '0');
      if (value > kMaxText) {
        stop();
        return 0;
      }
      ++pos_;
    }
    return value;
  }

  // [<number>] _ : 0 for "_", n + 1 for "n_".
  size_t ordinal() {
    if (take('_')) return 0;
    size_t value = number() + 1;
    expect('_');
    return value;
  }

  std::string_view identifier() {
    size_t length = number();
    if (length > text_.size() - pos_) {
      complete_ = false;
      length = text_.size() - pos_;
    }
    std::string_view id = text_.substr(pos_, length);
    pos_ += length;
    return id;
  }

  std::string source_name() {
    const std::string_view id = identifier();
    while (take('B')) identifier();  // ABI tags
    if (id.starts_with("_GLOBAL__N_")) return "(anonymous namespace)";
    return std::string(id);
  }

  std::string substitution() {  // after 'S'
    switch (peek()) {
      case 'a':
        ++pos_;
        return "std::allocator";
      case 'b':
        ++pos_;
        return "std::basic_string";
      case 's':
        ++pos_;
        return "std::string";
      case 'i':
        ++pos_;
        return "std::istream";
      case 'o':
        ++pos_;
        return "std::ostream";
      case 'd':
        ++pos_;
        return "std::iostream";
      default:
        break;
    }
    size_t index = 0;
    if (!take('_')) {
      while (is_digit(peek()) || (peek() >= 'A' && peek() <= 'Z')) {
        index = index * 36 + static_cast<size_t>(is_digit(peek()) ? peek() - '0' : peek() - 'A' + 10);
        if (index > kMaxText) return stop();
        ++pos_;
      }
      expect('_');
      ++index;
    }
    if (index >= substitutions_.size()) return stop();
    spend(substitutions_[index].size() + 1);
    return substitutions_[index];
  }

  std::string types_until_end() {
    std::string list;
    while (!at_end() && peek() != 'E') {
      std::string part = type();
      if (part == "void" && list.empty() && (at_end() || peek() == 'E')) break;
      if (!list.empty()) append(list, ", ");
      append(list, part);
    }
    return list;
  }

  std::string unqualified_name() {
    Deeper deeper(*this);
    take('L');
    if (is_digit(peek())) return source_name();
    if (peek() == 'U' && peek(1) == 'l') {
      pos_ += 2;
      std::string parameters = types_until_end();
      expect('E');
      return fmt::format("{{lambda({})#{}}}", parameters, ordinal() + 1);
    }
    if (peek() == 'U' && peek(1) == 't') {
      pos_ += 2;
      return fmt::format("{{unnamed type#{}}}", ordinal() + 1);
    }
    if (peek() >= 'a' && peek() <= 'z' && peek(1) >= 'a' && peek(1) <= 'z') {
      std::string_view code = text_.substr(pos_, 2);
      pos_ += 2;
      return code == "cl" ? "operator()" : fmt::format("operator {}", code);
    }
    if ((peek() == 'C' || peek() == 'D') && is_digit(peek(1))) {
      pos_ += 2;
      return "{constructor}";
    }
    return stop();
  }

  std::string nested_name() {  // after 'N'
    Deeper deeper(*this);
    method_is_const_ = false;
    while (peek() == 'r' || peek() == 'V' || peek() == 'K') {
      method_is_const_ = method_is_const_ || peek() == 'K';
      ++pos_;
    }
    const bool is_const = method_is_const_;
    if (peek() == 'R' || peek() == 'O') ++pos_;
    std::string prefix;
    bool last_is_new = false, template_last = false;
    while (!at_end() && !take('E')) {
      template_last = false;
      if (peek() == 'S' && peek(1) == 't') {
        pos_ += 2;
        prefix = "std";
        last_is_new = false;
        continue;
      }
      if (prefix.empty() && take('S')) {
        prefix = substitution();
        last_is_new = false;
        continue;
      }
      if (peek() == 'I' && !prefix.empty()) {
        append(prefix, template_arguments());
        template_last = true;
      } else if (prefix.empty() && take('T')) {
        prefix = fmt::format("T{}", ordinal());
      } else {
        std::string part = unqualified_name();
        if (!prefix.empty()) append(prefix, "::");
        append(prefix, part);
      }
      remember(prefix);
      last_is_new = true;
    }
    // The whole name is no substitution by itself; as a type it becomes one in type().
    if (last_is_new && complete_ && !substitutions_.empty()) substitutions_.pop_back();
    ends_in_template_ = template_last;
    method_is_const_ = is_const;
    return prefix;
  }

  std::string local_name() {  // after 'Z'
    Deeper deeper(*this);
    std::string outer = encoding();
    expect('E');
    if (take('s')) {
      if (take('_')) number();
      return outer + "::{string literal}";
    }
    if (take('d')) ordinal();
    std::string inner = name();
    if (take('_')) number();
    append(outer, "::");
    append(outer, inner);
    return outer;
  }

  // A function with its parameters, as inside a local name.
  std::string encoding() {
    Deeper deeper(*this);
    method_is_const_ = false;
    std::string text = name();
    const bool is_const = method_is_const_;
    if (at_end() || peek() == 'E') return text;
    if (ends_in_template_) type();  // the return type
    append(text, fmt::format("({})", types_until_end()));
    if (is_const) append(text, " const");
    return text;
  }

  std::string name() {
    Deeper deeper(*this);
    ends_in_template_ = false;
    if (take('N')) return nested_name();
    if (take('Z')) return local_name();
    std::string text;
    bool substituted = false;
    if (peek() == 'S' && peek(1) == 't') {
      pos_ += 2;
      text = fmt::format("std::{}", unqualified_name());
    } else if (take('S')) {
      text = substitution();
      substituted = true;
    } else {
      text = unqualified_name();
    }
    if (peek() == 'I') {
      if (!substituted) remember(text);
      append(text, template_arguments());
      ends_in_template_ = true;
    }
    return text;
  }

  std::string template_arguments() {
    Deeper deeper(*this);
    expect('I');
    std::string list = "<";
    while (!at_end() && !take('E')) {
      std::string part = template_argument();
      if (list.size() > 1 && !part.empty()) append(list, ", ");
      append(list, part);
    }
    return list + ">";
  }

  std::string template_argument() {
    Deeper deeper(*this);
    if (take('L')) return literal();
    if (take('J')) {
      std::string list;
      while (!at_end() && !take('E')) {
        if (!list.empty()) append(list, ", ");
        append(list, template_argument());
      }
      return list;
    }
    if (peek() == 'X') return stop();
    return type();
  }

  std::string literal() {  // after 'L'
    Deeper deeper(*this);
    if (peek() == '_' && peek(1) == 'Z') {
      pos_ += 2;
      std::string text = fmt::format("&{}", encoding());
      expect('E');
      return text;
    }
    const char code = peek();
    std::string of = type();
    std::string value = take('n') ? "-" : "";
    while (!at_end() && peek() != 'E') value += text_[pos_++];
    expect('E');
    if (value.size() > 64) return stop();
    switch (code) {
      case 'b':
        return value == "0" ? "false" : "true";
      case 'i':
        return value;
      case 'j':
        return value + "u";
      case 'l':
        return value + "l";
      case 'm':
        return value + "ul";
      default:
        return fmt::format("({}){}", of, value);
    }
  }

  std::string wrapped_type(std::string_view suffix) {
    ++pos_;
    std::string text = type();
    append(text, suffix);
    remember(text);
    return text;
  }

  std::string function_type() {  // after 'F'
    take('Y');
    std::string text = type();
    append(text, fmt::format(" ({})", types_until_end()));
    expect('E');
    remember(text);
    return text;
  }

  std::string type() {
    Deeper deeper(*this);
    if (at_end()) return {};
    switch (peek()) {
      case 'P':
        return wrapped_type("*");
      case 'R':
        return wrapped_type("&");
      case 'O':
        return wrapped_type("&&");
      case 'K':
        return wrapped_type(" const");
      case 'V':
        return wrapped_type(" volatile");
      case 'r':
        return wrapped_type(" restrict");
      case 'F':
        ++pos_;
        return function_type();
      case 'D':
        if (peek(1) == 'p') {
          pos_ += 2;
          return type();
        }
        return stop();
      case 'A': {
        ++pos_;
        const size_t size = number();
        expect('_');
        std::string text = type();
        append(text, fmt::format(" [{}]", size));
        remember(text);
        return text;
      }
      case 'T': {
        ++pos_;
        std::string text = fmt::format("T{}", ordinal());
        remember(text);
        return text;
      }
      case 'u':
        ++pos_;
        return source_name();
      case 'S':
        if (peek(1) != 't') {
          ++pos_;
          std::string text = substitution();
          if (peek() != 'I') return text;
          append(text, template_arguments());
          remember(text);
          return text;
        }
        break;
      default: {
        std::string_view builtin = builtin_type(peek());
        if (builtin.empty()) break;
        ++pos_;
        return std::string(builtin);
      }
    }
    std::string text = name();
    remember(text);
    return text;
  }

  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
  int64_t budget_ = kMaxBytes;
  bool complete_ = true;
  bool ends_in_template_ = false;  // of the name read last
  bool method_is_const_ = false;
  std::vector<std::string> substitutions_;
};

}  // namespace

Demangled demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  return NameReader(mangled).read();
}

}  // namespace epilogue::trace
