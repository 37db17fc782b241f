// Which way was the quickest for a problem, and which nearly so, remembered in the process and on disk.
#pragma once

#include <array>
#include <ios>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/gemm_problem.h"

namespace epilogue::cuda {

// A way to run a product: whose it is, then the words that tell it from others. cuBLASLt's are its
// algorithm's, which it allows to be kept for the same version of the library. Of a whole MLP two_kernels has
// nothing, as both are kept by themselves, one_kernel has a configuration, and a pair that was quicker than
// those two has the gated kernel of ours, then what tells down's.
enum GemmWays : uint64_t { cublaslt, own, two_kernels, one_kernel, pair_with_cublaslt, pair_with_own };
inline constexpr size_t kAlgorithmWords = 8;
using GemmChoice = std::array<uint64_t, 2 + kAlgorithmWords>;
using GemmFinalists = std::vector<GemmChoice>;  // the choice first

// A file holds the choices of one device, driver and cuBLASLt: "gemm_<hash of those and its format>.tsv"
// below the cache folder, first line what they are, then a line for each problem that ends in its own
// checksum; of several the last counts. Writers take a lock, read what others have added and add a line,
// which takes no longer the more there are. A file with damaged lines, or of another origin, is written anew
// and renamed into place. Readers do not wait. A folder that cannot be written costs the memory between runs,
// nothing else.
class GemmChoices {
 public:
  // `origin` names device, driver and library; `folder` "" keeps nothing on disk.
  GemmChoices(std::string folder, std::string origin);

  std::optional<GemmChoice> find(const GemmKey& key);
  // The choice, then others nearly as quick, which may be the quicker ones beside another kernel. Empty where
  // nothing is kept: a problem that can be run in one way alone is not.
  GemmFinalists finalists(const GemmKey& key);
  void keep(const GemmKey& key, GemmFinalists finalists, bool on_disk = true);

 private:
  struct Kept {
    GemmFinalists finalists;
    bool on_disk = true;
  };
  using Table = std::map<GemmKey, Kept>;
  struct Read {
    Table table;
    bool whole = false;  // a line can be added behind it
  };
  Read read_from(std::streamoff begin);
  void add_line(const std::string& line);
  void write_anew();

  const std::string path_, origin_;
  std::mutex mutex_, file_mutex_;  // of the table; of the file, among the threads of this process
  std::streamoff read_to_ = 0;     // of the file; 0 where it has to be read again
  Table table_;
};

// A line of the file without its end, and back; nothing for a damaged one.
std::string choice_line(const GemmKey& key, const GemmFinalists& finalists);
std::optional<std::pair<GemmKey, GemmFinalists>> parse_choice_line(const std::string& line);

}  // namespace epilogue::cuda
