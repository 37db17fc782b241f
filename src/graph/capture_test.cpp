#include "graph/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "epilogue/nn.h"
#include "graph/graph.h"

namespace epilogue::graph {
namespace {

using ::testing::HasSubstr;

std::string message_of(const Function& function, const std::vector<Tensor>& inputs) {
  try {
    capture(function, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Capture, PrintsAReadableGraphWithSymbolsForLeadingSizes) {
  const nn::Linear layer(8, 16);
  const Graph graph = capture([&](std::span<const Tensor> in) { return std::vector{layer.forward(in[0])}; },
                              std::vector{randn({4, 6, 8}, 1)}, {.symbols = true});
  EXPECT_EQ(to_text(graph),
            "graph(%0: f32[s0, s1, 8]):\n"
            "  %1: f32[16, 8] = parameter\n"
            "  %4: f32[16] = parameter\n"
            "  %2: f32[8, 16] = t(%1)\n"
            "  %3: f32[s0*s1, 8] = view(%0, [s0*s1, 8])\n"
            "  %5: f32[s0*s1, 16] = addmm(%4, %3, %2)\n"
            "  %6: f32[s0, s1, 16] = view(%5, [s0, s1, 16])\n"
            "  return %6\n");
  verify(graph, "capture");
}

TEST(Capture, RunsNoKernelAndTakesNoMemory) {
  // 64 TB, were it there.
  const Tensor row = randn({1, 1 << 20}, 1);
  const Tensor wide = row.expand({1 << 24, 1 << 20});
  const Graph graph =
      capture([](std::span<const Tensor> in) { return std::vector{relu(in[0])}; }, std::vector{wide});
  EXPECT_EQ(graph.value(graph.outputs[0]).sizes(), (Dims{1 << 24, 1 << 20}));
}

TEST(Capture, RefusesTheAsStridedThatEagerRefuses) {
  const std::vector<Tensor> x{randn({64}, 1).slice(0, 48, 64)};
  const auto reaching = [](int64_t elements, bool of_result) {
    return [=](std::span<const Tensor> in) {
      return std::vector{(of_result ? relu(in[0]) : in[0]).as_strided({elements}, {1}, 0)};
    };
  };
  EXPECT_EQ(message_of(reaching(64, false), x), "");
  EXPECT_THAT(message_of(reaching(65, false), x), HasSubstr("reach element 64, the storage holds 64"));
  EXPECT_EQ(message_of(reaching(16, true), x), "");
  EXPECT_THAT(message_of(reaching(17, true), x), HasSubstr("reach element 16, the storage holds 16"));
}

TEST(Capture, ReadingAValueSaysWhatToDo) {
  const std::vector<Tensor> x{randn({2, 3}, 1)};
  const Function items = [](std::span<const Tensor> in) {
    return std::vector{full({1}, relu(in[0]).select(0, 0).select(0, 0).item())};
  };
  EXPECT_THAT(message_of(items, x), HasSubstr("return the tensor and read it after the call"));
  const Function data = [](std::span<const Tensor> in) {
    return std::vector{full({1}, *in[0].data<float>())};
  };
  EXPECT_THAT(message_of(data, x),
              HasSubstr("reads a tensor's value (f32 [2, 3]) while its graph is captured"));
}

TEST(Capture, WritingInPlaceSaysWhatToDo) {
  const std::vector<Tensor> x{randn({2, 3}, 1)};
  Tensor outside = zeros({2, 3});
  const Function copies = [&](std::span<const Tensor> in) {
    outside.copy_(in[0]);
    return std::vector{in[0]};
  };
  EXPECT_THAT(message_of(copies, x), HasSubstr("return the value and copy it after the call"));
  const Function writes = [](std::span<const Tensor> in) {
    Tensor made = relu(in[0]);
    made.mutable_data();
    return std::vector{made};
  };
  EXPECT_THAT(message_of(writes, x), HasSubstr("make a new tensor instead"));
}

TEST(Capture, ThrowsWhatEagerThrows) {
  const Function wrong = [](std::span<const Tensor> in) { return std::vector{mm(in[0], in[0])}; };
  const std::vector<Tensor> x{randn({2, 3}, 1)};
  std::string eager;
  try {
    wrong(x);
  } catch (const Error& error) {
    eager = error.what();
  }
  EXPECT_EQ(message_of(wrong, x), eager);
  EXPECT_NE(eager, "");
}

TEST(Capture, EndsWithTheFunction) {
  const std::vector<Tensor> x{randn({2, 3}, 1)};
  EXPECT_THROW(capture([](std::span<const Tensor>) -> std::vector<Tensor> { throw Error("no"); }, x), Error);
  EXPECT_NO_THROW(relu(x[0]).data());
}

TEST(Capture, KnowsATensorByItsStorageAndView) {
  const Tensor weight = randn({4, 4}, 1);
  const Graph graph = capture(
      [&](std::span<const Tensor> in) {
        return std::vector{add(add(in[0], weight), weight.t()), in[0].slice(0, 1, 3)};
      },
      std::vector{randn({4, 4}, 2)});
  EXPECT_EQ(std::ranges::count_if(graph.values, [](const Value& v) { return v.kind == ValueKind::constant; }),
            1);
  verify(graph, "capture");
}

TEST(Structure, IsTheSameForAnotherLengthAndAnotherForAnotherPath) {
  const Function branches = [](std::span<const Tensor> in) {
    return std::vector{in[0].size(0) > 100 ? relu(in[0]) : silu(in[0])};
  };
  const auto text = [&](int64_t rows) {
    return structure(capture(branches, std::vector{randn({rows, 8}, 1)}));
  };
  EXPECT_EQ(text(3), text(5));
  EXPECT_NE(text(3), text(101));
}

TEST(Verify, NamesTheNodeThatReadsWhatIsNotThere) {
  Graph graph = capture([](std::span<const Tensor> in) { return std::vector{relu(silu(in[0]))}; },
                        std::vector{randn({2, 3}, 1)});
  std::swap(graph.nodes[0], graph.nodes[1]);
  try {
    verify(graph, "a test");
    FAIL() << "a graph in the wrong order passed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("after a test: ep::relu reads %1 before it is made"));
  }
}

TEST(Verify, FindsAWrongShapeAndAWrongLayout) {
  Graph graph = capture([](std::span<const Tensor> in) { return std::vector{relu(in[0].t())}; },
                        std::vector{randn({2, 3}, 1)});
  Graph shape = graph, layout = graph;
  shape.value(2).layout.sizes = {2, 3};
  EXPECT_THROW(verify(shape, "a test"), Error);
  layout.value(1).layout.strides = {2, 1};
  EXPECT_THROW(verify(layout, "a test"), Error);
  EXPECT_NO_THROW(verify(graph, "a test"));
}

}  // namespace
}  // namespace epilogue::graph
