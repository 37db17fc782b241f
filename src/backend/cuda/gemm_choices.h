// Which way was the quickest for a problem, remembered in the process and on disk.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backend/cuda/gemm_problem.h"

namespace epilogue::cuda {

// A way to run a product: whose it is, then the words that tell it from others. cuBLASLt's are its
// algorithm's, which it allows to be kept for the same version of the library; of a whole MLP one_kernel has
// a configuration and two_kernels nothing, as both are kept by themselves.
enum GemmWays : uint64_t { cublaslt, own, two_kernels, one_kernel };
using GemmChoice = std::array<uint64_t, 9>;

// A file holds the choices of one device, driver and cuBLASLt: "gemm_<hash of those>.tsv" below the cache
// folder, first line what they are, then a line for each problem that ends in its own checksum. Lines that
// are damaged or of another origin are passed over, and gone when the file is next written. Writers take a
// lock, merge what others wrote, and rename a whole file into place; readers do not wait for them. A folder
// that cannot be written costs the memory between runs, nothing else.
class GemmChoices {
 public:
  // `origin` names device, driver and library; `folder` "" keeps nothing on disk.
  GemmChoices(std::string folder, std::string origin);

  std::optional<GemmChoice> find(const GemmKey& key);
  void keep(const GemmKey& key, const GemmChoice& choice);

 private:
  using Table = std::map<GemmKey, GemmChoice>;
  Table read_file() const;
  void write_file(const Table& table) const;

  const std::string path_, origin_;
  std::mutex mutex_;
  Table table_;
};

// A line of the file without its end, and back; nothing for a damaged one.
std::string choice_line(const GemmKey& key, const GemmChoice& choice);
std::optional<std::pair<GemmKey, GemmChoice>> parse_choice_line(const std::string& line);

}  // namespace epilogue::cuda
