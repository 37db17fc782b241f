#include "base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "base/check.h"

#define EP_VERBOSE_TOPICS "dispatch, tuning, guards, recompiles, compile"

namespace epilogue {
namespace {

constexpr std::array<EnvRow, static_cast<size_t>(EnvVar::count)> kRows{{
    {"EPILOGUE_VERBOSE", "topics to print on stderr, comma-separated, or all: " EP_VERBOSE_TOPICS},
    {"EPILOGUE_THREADS", "CPU threads; default: OMP_NUM_THREADS, or the cores this process may use"},
    {"EPILOGUE_PACK_WEIGHTS", "0 keeps weights as they are; default: parameters are packed once"},
    {"EPILOGUE_ISA",
     "highest instruction set for CPU kernels: scalar, avx2, avx512, avx512_bf16, amx; default: the "
     "machine's"},
    {"EPILOGUE_SPLIT_F32",
     "0 keeps CPU products of f32 from AMX, which takes many rows of them in three bf16 parts; default: 1"},
    {"EPILOGUE_CACHE_DIR",
     "where tuned choices, compiled kernels and packages are kept; default: ~/.cache/epilogue"},
    {"EPILOGUE_CUDA_MODULE",
     "the CUDA module to load, or 'none'; default: libepilogue_cuda.so beside libepilogue"},
    {"EPILOGUE_TF32", "1 lets CUDA products of f32 run in tf32; default: 0, full f32"},
    {"EPILOGUE_REPLAY",
     "0 launches every CUDA kernel anew, as its own call in a trace; default: 1, repeated calls are "
     "replayed"},
    {"EPILOGUE_DISABLE_PASSES", "passes of compile() to leave out, comma-separated"},
    {"EPILOGUE_CACHE_MB", "how large the cache of compiled kernels may grow; default: 512"},
    {"EPILOGUE_KERNELS_POLICY",
     "the policy file for kernel packages; default: ~/.config/epilogue/kernels.toml"},
}};

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> topics_asked_for() {
  if (const std::string wrong = wrong_verbose_topics(); !wrong.empty())
    std::fprintf(stderr, "epilogue: %s\n", wrong.c_str());
  return listed_words(env_text(EnvVar::verbose), ", ");
}

}  // namespace

const EnvRow& env_row(EnvVar var) { return kRows[static_cast<size_t>(var)]; }

std::vector<std::string> unknown_variables() {
  std::vector<std::string> unknown;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable, name = text.substr(0, text.find('='));
    const bool ours = name.starts_with("EPILOGUE_") && !name.starts_with("EPILOGUE_TEST_");
    if (ours && std::ranges::none_of(kRows, [&](const EnvRow& row) { return row.name == name; }))
      unknown.emplace_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::string env_text(EnvVar var) {
  const char* text = std::getenv(env_row(var).name);
  return text ? text : "";
}

int64_t env_int(EnvVar var, int64_t otherwise) {
  const std::string text = env_text(var);
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EP_CHECK(error == std::errc{} && end == text.data() + text.size(), "{}: expected a whole number, got '{}'",
           env_row(var).name, text);
  return value;
}

int64_t env_megabytes(EnvVar var, int64_t otherwise) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t value = env_int(var, otherwise);
  EP_CHECK(value >= 0 && value <= kMost, "{}: expected 0 to {}, got {}", env_row(var).name, kMost, value);
  return value;
}

bool env_flag(EnvVar var, bool otherwise) {
  const std::string text = env_text(var);
  if (text.empty()) return otherwise;
  if (text == "0" || text == "off" || text == "false") return false;
  if (text == "1" || text == "on" || text == "true") return true;
  fail("{}: expected 0 or 1, got '{}'", env_row(var).name, text);
}

std::vector<std::string> listed_words(std::string_view list, const char* separators) {
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0;
       (begin = list.find_first_not_of(separators, end)) != std::string_view::npos;) {
    end = std::min(list.find_first_of(separators, begin), list.size());
    words.emplace_back(list.substr(begin, end - begin));
  }
  return words;
}

std::string wrong_verbose_topics() {
  const std::vector<std::string> known = listed_words(EP_VERBOSE_TOPICS, ", ");
  std::vector<std::string> unknown;
  for (const std::string& topic : listed_words(env_text(EnvVar::verbose), ", "))
    if (topic != "all" && !has_word(known, topic)) unknown.push_back(fmt::format("'{}'", topic));
  if (unknown.empty()) return "";
  return fmt::format("{}: there is no topic {}: expected all, or some of {}", env_row(EnvVar::verbose).name,
                     fmt::join(unknown, ", "), EP_VERBOSE_TOPICS);
}

bool verbose(std::string_view topic) {
  static const std::vector<std::string> topics = topics_asked_for();
  return !topics.empty() && (has_word(topics, topic) || has_word(topics, "all"));
}

void verbose_line(std::string_view topic, std::string_view line) {
  if (verbose(topic))
    std::fprintf(stderr, "epilogue: %.*s: %.*s\n", static_cast<int>(topic.size()), topic.data(),
                 static_cast<int>(line.size()), line.data());
}

}  // namespace epilogue
