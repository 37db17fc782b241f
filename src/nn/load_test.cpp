#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "epilogue/nn.h"
#include "epilogue/safetensors.h"

namespace epilogue::nn {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;

constexpr const char* kFirst = "model-00001-of-00003.safetensors";
constexpr const char* kSecond = "model-00002-of-00003.safetensors";
constexpr const char* kThird = "model-00003-of-00003.safetensors";

// A checkpoint of two blocks of [2, 4] and [4, 2]; of the first, gate and up lie in one file and down in
// another. The third file is not there, as when a part of a checkpoint was fetched.
class LoadParameters : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    save_safetensors(path(kFirst), {{"model.layers.0.mlp.gate_proj.weight", full({4, 2}, 1)},
                                    {"model.layers.0.mlp.up_proj.weight", full({4, 2}, 2)}});
    save_safetensors(path(kSecond), {{"model.layers.0.mlp.down_proj.weight", full({2, 4}, 3)},
                                     {"model.layers.1.mlp.gate_proj.weight", full({4, 2}, 4)}});
    write_index(R"({"metadata": {"total_size": 128}, "weight_map": {
      "model.layers.0.mlp.gate_proj.weight": "model-00001-of-00003.safetensors",
      "model.layers.0.mlp.up_proj.weight": "model-00001-of-00003.safetensors",
      "model.layers.0.mlp.down_proj.weight": "model-00002-of-00003.safetensors",
      "model.layers.1.mlp.gate_proj.weight": "model-00002-of-00003.safetensors",
      "model.layers.1.mlp.up_proj.weight": "model-00003-of-00003.safetensors",
      "model.layers.1.mlp.down_proj.weight": "model-00003-of-00003.safetensors"}})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string folder() const { return folder_.string(); }
  std::string index() const { return path("model.safetensors.index.json"); }
  void write_index(const std::string& text) const { std::ofstream(index()) << text; }

  // What a layer of this block has then: its weights' first elements.
  static std::vector<double> loaded(const std::string& from, int block = 0) {
    GatedMlp layer(2, 4);
    load_parameters(layer.named_parameters(), from, prefix(block));
    return first_elements(layer);
  }
  static std::vector<double> first_elements(const GatedMlp& layer) {
    std::vector<double> all;
    for (const Linear* linear : {&layer.gate_proj, &layer.up_proj, &layer.down_proj})
      all.push_back(linear->weight.select(0, 0).select(0, 0).item());
    return all;
  }
  static std::string error_of(const std::string& from, int block = 0) {
    GatedMlp layer(2, 4);
    const std::vector<double> before = first_elements(layer);
    try {
      load_parameters(layer.named_parameters(), from, prefix(block));
    } catch (const Error& error) {
      EXPECT_EQ(first_elements(layer), before);
      return error.what();
    }
    return "no error";
  }

 private:
  static std::string prefix(int block) { return "model.layers." + std::to_string(block) + ".mlp."; }

  const fs::path folder_ =
      fs::temp_directory_path() / ("epilogue_load_" + std::to_string(::getpid()) +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

const std::vector<double> kWritten{1, 2, 3};

TEST_F(LoadParameters, OpensTheFilesOfAnIndexThatHoldThem) { EXPECT_EQ(loaded(index()), kWritten); }

TEST_F(LoadParameters, LooksForAnIndexsFilesBesideIt) {
  const fs::path before = fs::current_path();
  fs::current_path(folder());
  const std::vector<double> found = loaded("model.safetensors.index.json");
  fs::current_path(before);
  EXPECT_EQ(found, kWritten);
}

TEST_F(LoadParameters, TakesTheCheckpointsFolder) {
  EXPECT_EQ(loaded(folder()), kWritten);
  EXPECT_EQ(loaded(folder() + "/"), kWritten);
  save_safetensors(path("model.safetensors"), {{"model.layers.0.mlp.gate_proj.weight", full({4, 2}, 5)},
                                               {"model.layers.0.mlp.up_proj.weight", full({4, 2}, 6)},
                                               {"model.layers.0.mlp.down_proj.weight", full({2, 4}, 7)}});
  EXPECT_EQ(loaded(folder()), (std::vector<double>{5, 6, 7}));  // as transformers does
}

TEST_F(LoadParameters, AFolderWithoutACheckpointIsTold) {
  fs::remove(index());
  EXPECT_EQ(error_of(folder()),
            folder() + ": the folder holds neither model.safetensors nor model.safetensors.index.json");
}

TEST_F(LoadParameters, AFileThatIsMissingIsTold) {
  EXPECT_EQ(error_of(index(), 1), index() +
                                      ": its file \"model-00003-of-00003.safetensors\", which holds tensor "
                                      "\"model.layers.1.mlp.down_proj.weight\", is not beside it");
}

TEST_F(LoadParameters, AFileWithoutWhatTheIndexSaysIsTold) {
  save_safetensors(path(kThird), {{"model.layers.1.mlp.down_proj.weight", full({2, 4}, 3)}});
  EXPECT_EQ(error_of(index(), 1), path(kThird) +
                                      ": no tensor \"model.layers.1.mlp.up_proj.weight\", though " + index() +
                                      " says that it is there");
}

TEST_F(LoadParameters, ATensorOfNoFileIsTold) {
  EXPECT_EQ(error_of(index(), 2),
            index() + ": no tensor 'model.layers.2.mlp.gate_proj.weight', expected f32 [4, 2]");
}

TEST_F(LoadParameters, AnIndexThatIsNoFileOrTooLargeIsRefusedUnread) {
  fs::remove(index());
  ASSERT_EQ(mkfifo(index().c_str(), 0600), 0);  // reading it would wait for ever
  EXPECT_EQ(error_of(index()), index() + ": is no regular file, expected the index of a checkpoint");
  fs::remove(index());
  write_index("{}");
  fs::resize_file(index(), 100'000'001);
  EXPECT_EQ(error_of(index()),
            index() + ": is larger than 100000000 bytes, the most that the index of a checkpoint may have");
}

TEST_F(LoadParameters, ALinkThatLeadsNowhereIsNotPassedOver) {
  fs::create_symlink(path("pruned"), path("model.safetensors"));
  EXPECT_NE(error_of(folder()).find(path("model.safetensors")), std::string::npos) << error_of(folder());
}

TEST_F(LoadParameters, ADamagedFileOrIndexIsNamed) {
  std::ofstream(path(kSecond)) << "<html>";
  EXPECT_EQ(error_of(index()),
            path(kSecond) + " is no safetensors file: it has 6 bytes; expected at least 8");
  write_index("{}");
  EXPECT_EQ(error_of(index()), index() + ": it has no weight_map, which tells the file of each tensor");
  write_index(R"({"weight_map": {"w": "../x"}})");
  EXPECT_THAT(error_of(folder()), StartsWith(index() + ": its weight_map has \"../x\" for tensor \"w\""));
  EXPECT_THAT(error_of(path("absent.json")), StartsWith(path("absent.json") + ": "));
}

}  // namespace
}  // namespace epilogue::nn
