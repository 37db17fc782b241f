#include "epilogue/safetensors.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "error_of.h"
#include "test_data.h"

namespace epilogue {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  size_t files_in_folder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

 private:
  const fs::path folder_ =
      fs::temp_directory_path() / ("epilogue_safetensors_" + std::to_string(::getpid()) +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.sizes(), b.sizes());
  const Tensor packed_a = a.contiguous(), packed_b = b.contiguous();
  const auto bytes = [](const Tensor& t) {
    return std::string_view(static_cast<const char*>(t.data()), t.nbytes());
  };
  EXPECT_TRUE(bytes(packed_a) == bytes(packed_b));
}

// By hand: a header that save_safetensors would not write.
void write(const std::string& path, const std::string& json, std::initializer_list<float> data) {
  const uint64_t length = json.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length) << json;
  file.write(reinterpret_cast<const char*>(std::data(data)),
             static_cast<std::streamsize>(data.size() * sizeof(float)));
}

TEST_F(Safetensors, RoundTripsEveryDTypeScalarAndEmptyShape) {
  std::map<std::string, Tensor> tensors;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64})
    tensors[std::string("all.") + dtype_name(dtype)] = arange(15, {.dtype = dtype}).view({3, 5});
  tensors["scalar"] = full({}, 2.5);
  tensors["none"] = empty({4, 0, 2}, {.dtype = DType::bf16});
  tensors["quote\" \\ \n \xce\xbc"] = ones({1, 1, 1, 1, 1, 1, 1, 2});
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"tab\t", "a \"b\""}};
  save_safetensors(path("a"), tensors, metadata);
  const SafetensorsFile file = load_safetensors(path("a"));
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same(file.tensors.at(name), tensor);
}

TEST_F(Safetensors, WritesAViewAsItsElementsInOrder) {
  const Tensor whole = arange(24).view({4, 6});
  save_safetensors(path("a"), {{"t", whole.t()}, {"slice", whole.slice(1, 1, 6, 2)}});
  const SafetensorsFile file = load_safetensors(path("a"));
  expect_same(file.tensors.at("t"), whole.t());
  expect_same(file.tensors.at("slice"), whole.slice(1, 1, 6, 2));
}

TEST_F(Safetensors, WritesWidestElementsFirstThenByNameAndPadsTheHeader) {
  save_safetensors(path("a"), {{"a", zeros({1}, {.dtype = DType::bf16})},
                               {"b", zeros({1}, {.dtype = DType::i64})},
                               {"c", zeros({1})},
                               {"d", zeros({1}, {.dtype = DType::f64})}});
  const std::string bytes = bytes_of(path("a"));
  EXPECT_EQ((bytes.size() - 22) % 8, 0u);
  EXPECT_THAT(bytes.substr(8), StartsWith(R"({"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                                          R"("d":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},)"
                                          R"("c":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},)"
                                          R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[20,22]}})"));
}

TEST_F(Safetensors, RewritesAGoldenFileByteForByte) {
  const std::string golden = test_data("golden/linear_bfloat16.safetensors");
  const SafetensorsFile file = load_safetensors(golden);
  save_safetensors(path("a"), file.tensors, file.metadata);
  EXPECT_TRUE(bytes_of(path("a")) == bytes_of(golden));
}

TEST_F(Safetensors, LoadsEveryGoldenFile) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(test_data("golden"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file = load_safetensors(entry.path().string());
    EXPECT_TRUE(file.tensors.contains("x") && file.tensors.contains("y_torch")) << entry.path();
    EXPECT_EQ(file.tensors.at("y_f64").dtype(), DType::f64) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 14);
}

TEST_F(Safetensors, TensorsOutliveTheMapAndTheFile) {
  save_safetensors(path("a"), {{"x", arange(1000)}, {"y", ones({3})}});
  Tensor x = load_safetensors(path("a")).tensors.at("x");
  fs::remove(path("a"));
  EXPECT_EQ(x.select(0, 999).item(), 999);
}

TEST_F(Safetensors, WritingALoadedTensorLeavesTheFileAlone) {
  save_safetensors(path("a"), {{"x", zeros({8})}});
  const std::string before = bytes_of(path("a"));
  Tensor x = load_safetensors(path("a")).tensors.at("x");
  x.mutable_data<float>()[3] = 7;
  EXPECT_EQ(x.select(0, 3).item(), 7);
  EXPECT_EQ(bytes_of(path("a")), before);
}

TEST_F(Safetensors, AlignsTensorsBehindAHeaderOfOddLength) {
  const std::string json = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_NE(json.size() % 4, 0u);
  write(path("a"), json, {1, -2});
  const Tensor x = load_safetensors(path("a")).tensors.at("x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 4, 0u);
  EXPECT_EQ(x.select(0, 1).item(), -2);
}

TEST_F(Safetensors, ReplacesTheFileItsTensorsComeFrom) {
  save_safetensors(path("a"), {{"x", arange(5000)}, {"y", ones({3})}});
  SafetensorsFile file = load_safetensors(path("a"));
  file.tensors.erase("y");
  save_safetensors(path("a"), file.tensors);
  expect_same(load_safetensors(path("a")).tensors.at("x"), arange(5000));
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Safetensors, FullDiskKeepsTheOldFileAndLeavesNoOther) {
  save_safetensors(path("a"), {{"x", ones({10})}});
  const std::string before = bytes_of(path("a"));
  // A limit on the size of files stops write() half way, as a full disk does.
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { save_safetensors(path("a"), {{"x", ones({5000})}}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, StartsWith(path("a") + ": cannot write: "));
  EXPECT_THAT(error, HasSubstr("File too large"));
  EXPECT_EQ(bytes_of(path("a")), before);
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const auto saving = [&](const std::string& name, const Tensor& tensor) {
    return error_of([&] { save_safetensors(path("a"), {{name, tensor}}); });
  };
  EXPECT_THAT(saving("x", Tensor()), HasSubstr("tensor \"x\" is undefined"));
  EXPECT_THAT(saving("__metadata__", ones({1})), HasSubstr("cannot have the name __metadata__"));
  EXPECT_THAT(saving("\xff", ones({1})), HasSubstr("no UTF-8"));
  EXPECT_THAT(error_of([&] {
                save_safetensors(path("a"), {{"x", ones({1})}}, {{"key", "\xff"}});
              }),
              HasSubstr("no UTF-8"));
  EXPECT_EQ(files_in_folder(), 0u);
}

// Models carry masks and scales beside the weights of a layer.
TEST_F(Safetensors, TensorsOfOtherDTypesAreInNobodysWayUntilTheyAreAskedFor) {
  write(path("model"),
        R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
        R"("mask":{"dtype":"BOOL","shape":[8],"data_offsets":[8,16]}})",
        {1, 2, 3, 4});
  const SafetensorsFile loaded = load_safetensors(path("model"));
  EXPECT_EQ(loaded.tensors.size(), 1U);
  EXPECT_EQ(loaded.unread, (std::map<std::string, std::string>{{"mask", "BOOL"}}));
  const std::vector<std::string> weight{"w"}, mask{"mask"};
  EXPECT_EQ(load_checkpoint(path("model"), weight).tensors.at("w").data<float>()[1], 2);
  EXPECT_EQ(
      error_of([&] { load_checkpoint(path("model"), mask); }),
      path("model") + ": tensor \"mask\" has dtype \"BOOL\"; supported are F32, BF16, F16, F64, I32 and I64");
}

TEST_F(Safetensors, AFileOfAnotherKindIsToldFirst) {
  const auto loading = [&](std::string_view content) {
    std::ofstream(path("a"), std::ios::binary) << content;
    return error_of([&] { load_safetensors(path("a")); });
  };
  const std::string no = path("a") + " is no safetensors file: ";
  EXPECT_EQ(loading("hello\n"), no + "it has 6 bytes; expected at least 8");
  EXPECT_EQ(
      loading("{\n  \"metadata\": {}}"),
      no + "its first eight bytes give a header of 8387229874382703227 bytes; at most 100000000 are allowed");
  EXPECT_EQ(loading(std::string(64, '\0')), no + "its header does not begin with '{'");
  EXPECT_THAT(loading(std::string("\x03\0\0\0\0\0\0\0{x}", 11)),
              StartsWith(no + "its header is no JSON object:"));
  // What is cut short was one.
  EXPECT_EQ(loading(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
            path("a") + ": the file ends inside its header of 9 bytes");
}

TEST_F(Safetensors, ErrorsNameTheFile) {
  const auto loading = [&](const std::string& file) { return error_of([&] { load_safetensors(file); }); };
  EXPECT_EQ(loading(path("absent")), path("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(loading(path("")), path("") + ": not a regular file");
  std::ofstream(path("empty")).close();
  EXPECT_EQ(loading(path("empty")),
            path("empty") + " is no safetensors file: it has 0 bytes; expected at least 8");
  EXPECT_THAT(error_of([&] { save_safetensors(path("no/folder"), {}); }),
              StartsWith(path("no/folder") + ": cannot create: "));
}

}  // namespace
}  // namespace epilogue
