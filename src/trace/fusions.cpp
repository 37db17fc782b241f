#include "trace/fusions.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "trace/kernel_name.h"

namespace epilogue::trace {
namespace {

// Words of kernel and op names that stand for several ops.
constexpr std::pair<const char*, const char*> kMeans[] = {
    {"addmm", "mm_add"},    {"linear", "mm_addmm_add"}, {"gemm", "mm_addmm"},          {"geglu", "gelu_mul"},
    {"swiglu", "silu_mul"}, {"gated", "mul"},           {"gated_mlp", "mm_addmm_mul"},
};

struct Kernel {
  const DiffSide* side = nullptr;
  DiffKind kind = DiffKind::kernel;
  double count = 0;  // per step, how many went or came
  bool explained = false;
};

std::string plain_words(const std::string& text) {
  std::string words = "_";
  for (const char c : text) {
    if (c == '*' || c == '+')
      words += c == '*' ? "_mul_" : "_add_";
    else
      words += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '_';
  }
  return words + "_";
}

bool has_word(const std::string& words, const std::string& word) {
  return words.find(plain_words(word)) != std::string::npos;
}

// The ops that the kernel says it computes, in its name or by the op that launched it and nothing else:
// "_gelu_mul_". Of an op of several kernels none can say which computes what.
std::string words_of(const DiffSide& kernel) {
  const KernelName name = explain_kernel(kernel.name);
  std::string words = plain_words(name.value(NameField::runs));
  for (const FieldValue& feature : name.features) words += plain_words(feature.value);
  if (kernel.alone)
    for (const std::string& op : kernel.ops) words += plain_words(op);
  for (const auto& [word, means] : kMeans)
    if (has_word(words, word)) words += plain_words(means);
  return words;
}

std::string label(const Kernel& kernel) {
  const std::string& op = *kernel.side->ops.begin();
  return kernel.count == 1 ? op : std::to_string(std::lround(kernel.count)) + " " + op;
}

class Matcher {
 public:
  explicit Matcher(Diff& diff) : diff_(diff) {
    for (const DiffRow& row : diff.only_a) add(gone_, row, *row.a, row.a->calls_per_step);
    for (const DiffRow& row : diff.only_b) add(added_, row, *row.b, row.b->calls_per_step);
    for (const DiffRow& row : diff.changed) {
      const double more = row.b->calls_per_step - row.a->calls_per_step;
      if (more < 0) add(gone_, row, *row.a, -more);
      if (more > 0) add(added_, row, *row.b, more);
    }
  }

  void match() {
    for (Kernel& kernel : added_) replace(kernel);
    for (Kernel& kernel : added_)
      if (!kernel.explained) fuse(kernel);
    for (const Kernel& kernel : gone_)
      if (!kernel.explained) diff_.gone.push_back(kernel.side->name);
    for (const Kernel& kernel : added_)
      if (!kernel.explained) diff_.added.push_back(kernel.side->name);
  }

 private:
  static void add(std::vector<Kernel>& kernels, const DiffRow& row, const DiffSide& side, double count) {
    if (row.kind == DiffKind::kernel || row.kind == DiffKind::cpu_kernel)
      kernels.push_back({&side, row.kind, count});
  }

  // One kernel for one of the same op, as long as that leaves no doubt which.
  void replace(Kernel& kernel) {
    const auto rivals = [&](const std::vector<Kernel>& kernels) {
      return std::count_if(kernels.begin(), kernels.end(),
                           [&](const Kernel& other) { return other.side->ops == kernel.side->ops; });
    };
    if (kernel.side->ops.size() != 1 || rivals(gone_) != 1 || rivals(added_) != 1) return;
    const auto same = std::find_if(gone_.begin(), gone_.end(),
                                   [&](const Kernel& old) { return old.side->ops == kernel.side->ops; });
    if (same->kind != kernel.kind || same->count != kernel.count) return;
    diff_.fusions.push_back({{label(*same)}, kernel.side->name});
    same->explained = kernel.explained = true;
  }

  void fuse(Kernel& kernel) {
    const std::string words = words_of(*kernel.side);
    const int products = has_word(words, "gated_mlp") ? 3 : has_word(words, "gated") ? 2 : 1;
    std::vector<Kernel*> parts;
    for (Kernel& old : gone_) {
      if (old.explained || old.kind != kernel.kind || old.side->ops.size() != 1) continue;
      const std::string& op = *old.side->ops.begin();
      const bool product = op == "mm" || op == "addmm";
      const bool counts_agree =
          old.count == kernel.count || (product && old.count == products * kernel.count);
      const bool taken = std::any_of(parts.begin(), parts.end(), [&](const Kernel* part) {
        return part->side->ops == old.side->ops && !(products > 1 && product);
      });
      if (counts_agree && !taken && has_word(words, op)) parts.push_back(&old);
    }
    if (parts.size() < 2) return;
    // In the order the kernel names them, which is the order it computes them in.
    std::sort(parts.begin(), parts.end(), [&](const Kernel* x, const Kernel* y) {
      return words.find(plain_words(*x->side->ops.begin())) < words.find(plain_words(*y->side->ops.begin()));
    });
    Fusion fusion{{}, kernel.side->name};
    for (Kernel* part : parts) {
      part->explained = true;
      fusion.from.push_back(label(*part));
    }
    diff_.fusions.push_back(std::move(fusion));
    kernel.explained = true;
  }

  Diff& diff_;
  std::vector<Kernel> gone_, added_;
};

}  // namespace

void find_fusions(Diff& diff) { Matcher(diff).match(); }

}  // namespace epilogue::trace
