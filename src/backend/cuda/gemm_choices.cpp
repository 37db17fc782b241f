#include "backend/cuda/gemm_choices.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/file.h>

#include "base/cache_dir.h"
#include "base/file.h"
#include "base/hash.h"

namespace epilogue::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "epilogue gemm choices 13";  // threads that outlive exit() read it
constexpr size_t kMostChoices = 8192;

std::string path_in(const std::string& folder, const std::string& origin) {
  return folder.empty() ? ""
                        : fmt::format("{}/{}", folder,
                                      choices_file_name(hash_of(fmt::format("{} {}", kFormat, origin))));
}

// Held by writers; a machine that crashes gives it back, and so does the descriptor's end.
FileDescriptor lock_file(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (file) flock(file.get(), LOCK_EX);
  return file;
}

}  // namespace

std::string choice_line(const GemmKey& key, const GemmFinalists& finalists) {
  std::string line = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", key.m, key.n, key.k,
                                 key.batch, key.last_n, key.a_ld, key.b_ld, key.bias_ld, key.a_stride,
                                 key.b_stride, static_cast<int>(key.dtype), int{key.a_columns},
                                 int{key.b_columns}, int{key.tf32}, static_cast<int>(key.place),
                                 static_cast<int>(key.bias), static_cast<int>(key.act), key.alignment);
  for (const GemmChoice& choice : finalists)
    for (const uint64_t word : choice) line += fmt::format(" {:x}", word);
  return line + fmt::format(" {:x}", hash_of(line));
}

std::optional<std::pair<GemmKey, GemmFinalists>> parse_choice_line(const std::string& line) {
  const size_t end = line.find_last_of(' ');
  if (end == std::string::npos || fmt::format("{:x}", hash_of(line.substr(0, end))) != line.substr(end + 1))
    return {};
  std::istringstream words(line.substr(0, end));
  GemmKey key;
  int dtype = 0, a_columns = 0, b_columns = 0, tf32 = 0, place = 0, bias = 0, act = 0, alignment = 0;
  words >> key.m >> key.n >> key.k >> key.batch >> key.last_n >> key.a_ld >> key.b_ld >> key.bias_ld >>
      key.a_stride >> key.b_stride >> dtype >> a_columns >> b_columns >> tf32 >> place >> bias >> act >>
      alignment;
  GemmFinalists finalists;
  words >> std::hex;
  do
    for (uint64_t& word : finalists.emplace_back()) words >> word;
  while (words && !words.eof());
  if (!words) return {};
  key.dtype = static_cast<DType>(dtype);
  key.a_columns = a_columns != 0;
  key.b_columns = b_columns != 0;
  key.tf32 = tf32 != 0;
  key.place = static_cast<GemmPlace>(place);
  key.bias = static_cast<GemmBias>(bias);
  key.act = static_cast<Act>(act);
  key.alignment = static_cast<uint8_t>(alignment);
  return {{key, finalists}};
}

GemmChoices::GemmChoices(std::string folder, std::string origin)
    : path_(path_in(folder, origin)), origin_(std::move(origin)), table_(read_from(0).table) {}

std::optional<GemmChoice> GemmChoices::find(const GemmKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = table_.find(key);
  return found == table_.end() ? std::nullopt : std::optional(found->second.finalists.front());
}

GemmFinalists GemmChoices::finalists(const GemmKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = table_.find(key);
  return found == table_.end() ? GemmFinalists() : found->second.finalists;
}

void GemmChoices::keep(const GemmKey& key, GemmFinalists finalists, bool on_disk) {
  const std::string line = choice_line(key, finalists);
  {
    const std::lock_guard lock(mutex_);
    table_[key] = {std::move(finalists), on_disk};
  }
  if (path_.empty() || !on_disk) return;
  const std::lock_guard lock(file_mutex_);
  std::error_code ignored;
  fs::create_directories(fs::path(path_).parent_path(), ignored);
  const FileDescriptor file_lock = lock_file(path_ + ".lock");
  add_line(line);
}

void GemmChoices::add_line(const std::string& line) {
  Read others = read_from(read_to_);
  if (!others.whole) return write_anew();
  {
    const std::lock_guard table_lock(mutex_);
    table_.merge(others.table);
    if (table_.size() > kMostChoices) return;
  }
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << line << '\n';
  if (file.flush()) read_to_ = file.tellp();
}

// From an offset behind the head on; from the first line where the file is shorter, as it was written anew.
GemmChoices::Read GemmChoices::read_from(std::streamoff begin) {
  Read read;
  if (path_.empty()) return read;
  std::ifstream file(path_, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != kFormat || !std::getline(file, line) || line != origin_)
    return read;
  const std::streamoff first_line = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff end = file.tellg();
  file.seekg(begin > first_line && begin <= end ? begin : first_line);
  read.whole = true;
  while (read.table.size() < kMostChoices && std::getline(file, line)) {
    if (const auto parsed = parse_choice_line(line); parsed && !file.eof())
      read.table.insert_or_assign(parsed->first, Kept{parsed->second});
    else
      read.whole = false;
  }
  read_to_ = read.whole ? end : 0;
  return read;
}

void GemmChoices::write_anew() {
  Table table = read_from(0).table;
  {
    const std::lock_guard table_lock(mutex_);
    table_.merge(table);
    table = table_;
  }
  const std::string temporary = fmt::format("{}.{}", path_, getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file << kFormat << '\n' << origin_ << '\n';
    for (const auto& [key, kept] : table)
      if (kept.on_disk) file << choice_line(key, kept.finalists) << '\n';
    if (!file.flush()) {
      file.close();
      unlink(temporary.c_str());
      return;
    }
    read_to_ = file.tellp();
  }
  std::error_code error;
  fs::rename(temporary, path_, error);
  if (error) unlink(temporary.c_str());
}

}  // namespace epilogue::cuda
