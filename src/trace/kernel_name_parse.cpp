#include "trace/kernel_name_parse.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"

namespace epilogue::trace {
namespace {

constexpr std::pair<std::string_view, std::string_view> kElementTypes[] = {
    {"f32", "f32"},
    {"float", "f32"},
    {"fp32", "f32"},
    {"f64", "f64"},
    {"double", "f64"},
    {"f16", "f16"},
    {"fp16", "f16"},
    {"half", "f16"},
    {"__half", "f16"},
    {"Half", "f16"},
    {"half_t", "f16"},
    {"bf16", "bf16"},
    {"BFloat16", "bf16"},
    {"tf32", "tf32"},
    {"__nv_bfloat16", "bf16"},
    {"s8", "s8"},
    {"int8_t", "s8"},
    {"signed char", "s8"},
    {"u8", "u8"},
    {"bfloat16_t", "bf16"},
    {"s4", "s4"},
    {"u4", "u4"},
    {"unsigned char", "u8"},
    {"b1", "b1"},
    {"float_e4m3_t", "e4m3"},
    {"s32", "s32"},
    {"int", "s32"},
    {"long", "s64"},
    {"i32", "s32"},
    {"float_e5m2_t", "e5m2"},
    {"i8", "s8"},
    {"i64", "s64"},
    {"bool", "bool"},
    {"e4m3", "e4m3"},
    {"Float8_e4m3fn", "e4m3"},
    {"e5m2", "e5m2"},
    {"e2m1", "e2m1"},
    {"Float8_e5m2", "e5m2"},
    {"cf32", "cf32"},
    {"__nv_fp8_e4m3", "e4m3"},
    {"cf64", "cf64"},
    {"float2", "cf32"},
    {"double2", "cf64"},
    {"void", "none"},
    {"__nv_fp8_e5m2", "e5m2"},
    {"u32", "u32"},
    {"u64", "u64"},
    {"tfloat32_t", "tf32"},
    {"fp8", "fp8"},
    {"uint8", "u8"},
    {"int8", "s8"},
    {"int32", "s32"},
    {"int64", "s64"},
    {"float16", "f16"},
    {"bfloat16", "bf16"},
};

bool opens(char c) { return c == '<' || c == '(' || c == '[' || c == '{'; }
bool closes(char c) { return c == '>' || c == ')' || c == ']' || c == '}'; }

// The index behind the bracket that opens at `at`; the text's end when it never closes.
size_t behind_group(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (opens(text[i])) ++depth;
    if (closes(text[i]) && !(text[i] == '>' && i > 0 && text[i - 1] == '-') && --depth == 0) return i + 1;
  }
  return text.size();
}

Words split_arguments(std::string_view inside) {
  Words parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (opens(inside[i])) ++depth;
    if (closes(inside[i])) depth = std::max(0, depth - 1);
    if (inside[i] == ',' && depth == 0) {
      parts.push_back(strip(inside.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (std::string_view last = strip(inside.substr(start)); !last.empty()) parts.push_back(last);
  return parts;
}

std::string_view inside_group(std::string_view group) {  // "<a, b>": "a, b"
  if (group.empty()) return {};
  group.remove_prefix(1);
  if (!group.empty() && closes(group.back())) group.remove_suffix(1);
  return group;
}

}  // namespace

Words split_words(std::string_view text, char by) {
  Words words;
  for (size_t start = 0;;) {
    const size_t end = text.find(by, start);
    words.push_back(text.substr(start, end == text.npos ? text.npos : end - start));
    if (end == text.npos) return words;
    start = end + 1;
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<int> sizes_of(std::string_view word) {
  std::vector<int> sizes;
  if (word.size() > 32) return sizes;
  for (std::string_view part : split_words(word, 'x')) {
    if (!is_number(part) || part.size() > 6) return {};
    sizes.push_back(std::stoi(std::string(part)));
  }
  if (sizes.size() < 2) sizes.clear();
  return sizes;
}

bool is_layout(std::string_view word) {
  return word.size() >= 2 && word.size() <= 3 &&
         std::ranges::all_of(word, [](char c) { return c == 'n' || c == 't'; });
}

std::string_view strip(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

void append_part(std::string& to, std::string_view part, std::string_view between) {
  if (!to.empty()) to.append(between);
  to.append(part);
}

std::string element_type(std::string_view word) {
  word = strip(word);
  if (word.starts_with("const ")) word.remove_prefix(6);
  if (word.ends_with(" const")) word.remove_suffix(6);
  if (word.find('<') == word.npos)
    if (const size_t scope = word.rfind("::"); scope != word.npos) word.remove_prefix(scope + 2);
  for (const auto& [text, type] : kElementTypes)
    if (word == text) return std::string(type);
  return {};
}

CppName parse_cpp(std::string_view text) {
  CppName cpp;
  size_t start = 0, name_end = 0;
  std::string_view group;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("(anonymous namespace)") || rest.starts_with("<unnamed>")) {
      name_end = i = behind_group(text, i);
    } else if (text[i] == '<') {
      const size_t end = behind_group(text, i);
      group = text.substr(i, end - i);
      i = end;
    } else if (text[i] == '(') {
      break;
    } else if (text[i] == ' ') {  // the return type ends
      start = name_end = ++i;
      group = {};
    } else {
      if (!group.empty()) group = {};  // it belonged to a scope
      name_end = ++i;
    }
  }
  std::string_view qualified = text.substr(start, name_end - start);
  size_t scope_end = qualified.rfind("::");
  scope_end = scope_end == qualified.npos ? 0 : scope_end + 2;
  cpp.scope = qualified.substr(0, scope_end);
  cpp.function = qualified.substr(scope_end);
  cpp.arguments = split_arguments(inside_group(group));
  return cpp;
}

Words template_arguments(std::string_view text) {
  const size_t open = text.find('<');
  if (open == text.npos) return {};
  return split_arguments(inside_group(text.substr(open, behind_group(text, open) - open)));
}

std::string_view plain_argument(std::string_view argument) {
  argument = strip(argument);
  const bool boolean = argument.starts_with("(bool)") || argument.starts_with("bool=");
  if (argument.starts_with('('))
    if (const size_t close = argument.find(')'); close != argument.npos) argument.remove_prefix(close + 1);
  if (const size_t equals = argument.find('='); equals != argument.npos && equals < 16)
    argument.remove_prefix(equals + 1);
  if (boolean) return argument == "0" ? "false" : "true";
  std::string_view digits = argument;
  while (!digits.empty() && (digits.back() == 'u' || digits.back() == 'l')) digits.remove_suffix(1);
  return is_number(digits) ? digits : argument;
}

std::string_view template_from(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == text.npos ? std::string_view{} : text.substr(at);
}

std::string cute_sizes(std::string_view tuple) {
  std::string sizes;
  for (std::string_view part : template_arguments(tuple)) {
    const Words inner = template_arguments(part);
    const std::string_view number = plain_argument(inner.empty() ? part : inner[0]);
    if (!is_number(number)) return {};
    append_part(sizes, number, "x");
  }
  return sizes;
}

void NameBuilder::family(std::string vendor, std::string family, std::string_view token,
                         Certainty certainty) {
  set(NameField::vendor, std::move(vendor), certainty, token);
  set(NameField::family, std::move(family), certainty, token);
}

void NameBuilder::set(NameField field, std::string value, Certainty certainty, std::string_view token) {
  if (value.empty()) return;
  kernel_.fields[static_cast<size_t>(field)] = {std::move(value), certainty,
                                                std::string(utf8_prefix(token, 200))};
}

void NameBuilder::feature(std::string text, Certainty certainty, std::string_view token) {
  if (kernel_.features.size() >= 64) return;
  kernel_.features.push_back({std::move(text), certainty, std::string(utf8_prefix(token, 200))});
}

}  // namespace epilogue::trace
