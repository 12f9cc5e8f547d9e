// Convolutions on the device as on the CPU: every map in every way of computing it, in both orders of memory,
// with groups, dilation, odd sizes, padding that differs between the sides, and parts of a batch; which of
// cuDNN's plans are taken, and what happens without any.
#include "mezzo/kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <vector>

#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_dnn.h"
#include "mezzo/kernels/conv/cuda_dnn_plan.h"
#include "mezzo/ops/forward.h"
#include "mezzo/tests/cuda/twin.h"
#if defined(MEZZO_CUDA_EMULATED)
#include "emulated_cuda/dnn.h"
#endif

namespace mezzo {
namespace {

using namespace twin;
using kernels::ConvMap;
using kernels::ConvShape;
using kernels::View;
using kernels::Windows;

/// How the maps are computed on the CUDA device.
enum class Way { chosen, columns, dnn };

struct Dtypes {
  DType x, weight, y;
};

/// Restores the process's settings.
class CudaConv : public CudaTwin {
 protected:
  void TearDown() override {
    kernels::cuda::set_conv_column_bytes(std::int64_t{256} << 20);
    kernels::cuda::set_conv_by_dnn(true);
    cuda::set_allow_tf32(false);
    cuda::set_benchmark(false);
#if defined(MEZZO_CUDA_EMULATED)
    kernels::cuda::set_dnn_workspace_limit(std::int64_t{1} << 30);
    emulated_cuda::DnnState& state = emulated_cuda::dnn();
    state.mode_a = state.fallback = state.executes = true;
    for (int& milliseconds : state.slowness) milliseconds = 0;
#endif
  }
};

/// `behind`: padding behind minus that in front.
ConvShape shape_of(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t groups,
                   const Windows& moves, std::int64_t behind = 0) {
  ConvShape shape{batch, in, out, groups, false, moves};
  Windows& w = shape.windows;
  for (std::size_t d = 0; d < Windows::kDims; ++d) {
    const std::int64_t padded = w.input[d] + 2 * w.padding[d] + (w.kernel[d] > 1 ? behind : 0);
    w.output[d] = (padded - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1;
  }
  return shape;
}
Windows moves(Windows::Sizes input, Windows::Sizes kernel, Windows::Sizes stride = {1, 1, 1},
              Windows::Sizes padding = {0, 0, 0}, Windows::Sizes dilation = {1, 1, 1}) {
  return {input, kernel, {}, stride, padding, dilation};
}

/// Shapes that reach every branch: strides, dilation, groups, multipliers, one place per window, no channel.
std::vector<ConvShape> shapes() {
  return {shape_of(2, 3, 5, 1, moves({1, 7, 6}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {1, 1, 2})),
          shape_of(3, 4, 6, 2, moves({1, 1, 9}, {1, 1, 3}, {1, 1, 2}, {0, 0, 1})),
          shape_of(2, 12, 9, 3, moves({1, 5, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})),
          shape_of(2, 2, 3, 1, moves({3, 4, 3}, {2, 3, 2}, {2, 1, 1}, {1, 0, 1}, {1, 1, 2})),
          shape_of(1, 4, 4, 4, moves({1, 6, 5}, {1, 3, 3}, {1, 2, 1}, {0, 1, 1})),
          shape_of(2, 3, 9, 3, moves({1, 4, 4}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 2, 1})),
          shape_of(3, 5, 4, 1, moves({1, 3, 4}, {1, 1, 1})),
          shape_of(2, 8, 4, 2, moves({1, 3, 3}, {1, 1, 1})),
          shape_of(2, 3, 4, 1, moves({1, 5, 6}, {1, 2, 2}), 1),
          shape_of(2, 3, 4, 1, moves({1, 6, 6}, {1, 1, 1}, {1, 2, 3})),
          shape_of(1, 40, 33, 1, moves({1, 9, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}))};
}

Tensor image(std::uint64_t seed, std::int64_t batch, std::int64_t channels, const Windows::Sizes& sizes,
             bool channels_last, DType dtype, Device device) {
  const Shape shape{batch, channels, sizes[0], sizes[1], sizes[2]};
  const Tensor plain = values(seed, shape, dtype, device);
  return channels_last ? plain.contiguous(MemoryFormat::channels_last) : plain;
}

/// x, weight and y of a shape, each ready to be read or written.
struct Arrays {
  Arrays(const ConvShape& s, const Dtypes& dtypes, Device device)
      : x(image(1, s.batch, s.in_channels, s.windows.input, s.channels_last, dtypes.x, device)),
        weight(image(2, s.out_channels, s.in_channels / s.groups, s.windows.kernel, false, dtypes.weight,
                     device)),
        y(image(3, s.batch, s.out_channels, s.windows.output, s.channels_last, dtypes.y, device)) {}
  Tensor x, weight, y;
};

Tensor bias_of(std::int64_t channels, DType dtype, Device device) {
  return values(4, {channels}, dtype, device);
}
void* data_of(const Tensor& tensor) { return tensor.impl().data(); }

/// A map by cuDNN. The emulated one has a plan for each of these; a real one may decline, and `otherwise`
/// computes what it declined.
template <class F>
void by_dnn(Device device, ConvMap map, const ConvShape& s, const Arrays& a, const void* bias,
            const F& otherwise) {
  const View y = ops::view_of(a.y), x = ops::view_of(a.x), w = ops::view_of(a.weight);
  if (kernels::cuda::dnn_conv(device, map, s, x, w, y, bias)) return;
#if defined(MEZZO_CUDA_EMULATED)
  ADD_FAILURE() << "cuDNN did not";
#endif
  otherwise();
}

void forward(Way way, Device device, const ConvShape& s, const Arrays& a, const void* bias) {
  const View y = ops::view_of(a.y), x = ops::view_of(a.x), w = ops::view_of(a.weight);
  if (way == Way::chosen || device.is_cpu()) return kernels::conv_forward(device, s, y, x, w, bias);
  const auto columns = [&] { kernels::cuda::columns_forward(device, s, y, x, w, bias); };
  if (way == Way::dnn) return by_dnn(device, ConvMap::forward, s, a, bias, columns);
  columns();
}
void input_gradient(Way way, Device device, const ConvShape& s, const Arrays& a, const void* bias) {
  const View y = ops::view_of(a.y), x = ops::view_of(a.x), w = ops::view_of(a.weight);
  if (way == Way::chosen || device.is_cpu()) return kernels::conv_input_gradient(device, s, x, y, w, bias);
  const auto columns = [&] { kernels::cuda::columns_input_gradient(device, s, x, y, w, bias); };
  if (way == Way::dnn) return by_dnn(device, ConvMap::input_gradient, s, a, bias, columns);
  columns();
}
void weight_gradient(Way way, Device device, const ConvShape& s, const Arrays& a) {
  const View y = ops::view_of(a.y), x = ops::view_of(a.x), w = ops::view_of(a.weight);
  if (way == Way::chosen || device.is_cpu()) return kernels::conv_weight_gradient(device, s, w, x, y);
  const auto columns = [&] { kernels::cuda::columns_weight_gradient(device, s, w, x, y); };
  if (way == Way::dnn) return by_dnn(device, ConvMap::weight_gradient, s, a, nullptr, columns);
  columns();
}

/// All three maps; results are given NaN first, which must not be read.
void run_maps(Way way, const ConvShape& s, const Dtypes& dtypes, Device device, Trace& trace) {
  constexpr double kScale =
      16;  // partial sums of up to 360 terms below 1, in an order that is each processor's
  for (const bool with_bias : {false, true}) {
    const Arrays y_of(s, dtypes, device), x_of(s, dtypes, device), w_of(s, dtypes, device);
    y_of.y.fill_(kNan), x_of.x.fill_(kNan), w_of.weight.fill_(kNan);
    const Tensor out_bias = bias_of(s.out_channels, dtypes.y, device);
    const Tensor in_bias = bias_of(s.in_channels, dtypes.x, device);
    forward(way, device, s, y_of, with_bias ? data_of(out_bias) : nullptr);
    trace.add("y", y_of.y, kScale);
    input_gradient(way, device, s, x_of, with_bias ? data_of(in_bias) : nullptr);
    trace.add("x", x_of.x, kScale);
    if (with_bias) continue;
    weight_gradient(way, device, s, w_of);
    trace.add("weight", w_of.weight, kScale);
  }
}

void expect_same_maps(Way way, const ConvShape& given, const Dtypes& dtypes) {
  for (const bool channels_last : {false, true}) {
    ConvShape s = given;
    s.channels_last = channels_last;
    SCOPED_TRACE(::testing::Message() << "way " << static_cast<int>(way) << ", " << s.in_channels << " to "
                                      << s.out_channels << " channels, groups " << s.groups << ", kernel "
                                      << s.windows.kernels() << (channels_last ? ", channels last" : ""));
    expect_same([&](Device device, Trace& trace) { run_maps(way, s, dtypes, device, trace); });
  }
}
constexpr Dtypes all(DType dtype) { return {dtype, dtype, dtype}; }

TEST_F(CudaConv, EveryShapeInEveryWay) {
  for (const Way way : {Way::chosen, Way::columns}) {
    for (const ConvShape& shape : shapes()) expect_same_maps(way, shape, all(DType::f32));
  }
}
// A second convolution's gradient may have windows that leave places at the end of x out.
TEST_F(CudaConv, WindowsThatLeavePlacesOut) {
  ConvShape shape = shapes()[0];
  shape.windows.output[1] -= 1, shape.windows.output[2] -= 2;
  for (const Way way : {Way::chosen, Way::columns}) expect_same_maps(way, shape, all(DType::f32));
  shape = shapes()[6];
  shape.windows.output[1] -= 1;
  for (const Way way : {Way::chosen, Way::columns}) expect_same_maps(way, shape, all(DType::f32));
}
TEST_F(CudaConv, EveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    for (const std::size_t which : {0U, 2U, 4U, 6U})
      expect_same_maps(Way::columns, shapes()[which], all(dtype));
  }
}
TEST_F(CudaConv, MixedDtypes) {
  for (const Dtypes& dtypes : {Dtypes{DType::f16, DType::f32, DType::f16},
                               {DType::f16, DType::f16, DType::f32},
                               {DType::f32, DType::bf16, DType::bf16},
                               {DType::f64, DType::f32, DType::f16}}) {
    for (const std::size_t which : {0U, 2U, 6U}) expect_same_maps(Way::columns, shapes()[which], dtypes);
  }
}

// More terms than threads, in blocks and, with channels last, in columns.
TEST_F(CudaConv, DepthwiseOfManyPlaces) {
  const ConvShape s = shape_of(3, 33, 33, 33, moves({1, 24, 23}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    expect_same_maps(Way::chosen, s, all(dtype));
}

// The limits cut batches, then places, then channels of the input gradient; the last leaves one of each.
TEST_F(CudaConv, PartsOfABatch) {
  for (const std::int64_t bytes : {4000, 500, 1}) {
    kernels::cuda::set_conv_column_bytes(bytes);
    for (const std::size_t which : {0U, 1U, 2U, 3U, 6U, 7U})
      expect_same_maps(Way::columns, shapes()[which], all(DType::f32));
    expect_same_maps(Way::columns, shapes()[2], all(DType::f16));
  }
}

/// Kernels and products that f starts.
template <class F>
std::uint64_t launches_of(const F& f) {
  const std::uint64_t before = cuda::launches();
  f();
  return cuda::launches() - before;
}

TEST_F(CudaConv, TheWayMeantForAShape) {
  kernels::cuda::set_conv_by_dnn(false);
  const Device device = Device::cuda(0);
  const auto launches = [&](const ConvShape& s) {
    const Arrays a(s, all(DType::f32), device);
    return launches_of([&] { forward(Way::chosen, device, s, a, nullptr); });
  };
  const ConvShape depthwise = shape_of(1, 4, 4, 4, moves({1, 6, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}));
  EXPECT_EQ(launches(depthwise), 1U) << "depthwise: one kernel";
  EXPECT_EQ(launches(shapes()[6]), 1U) << "one place per window: a product and no columns";
  EXPECT_EQ(launches(shapes()[0]), 2U) << "columns and a product";
}

// A gradient of a weight is added up over parts of the batch in f32, not in its own 16 bits, where 1 + 2^-12
// is 1.
TEST_F(CudaConv, PartsAreAddedInTheComputeDtype) {
  const Device device = Device::cuda(0);
  kernels::cuda::set_conv_column_bytes(1);
  constexpr std::int64_t kBatch = 64;
  for (const bool channels_last : {false, true}) {
    ConvShape s = shape_of(kBatch, 2, 1, 1, moves({1, 1, 3}, {1, 1, 3}));
    s.channels_last = channels_last;
    const Arrays a(s, all(DType::f16), device);
    a.y.fill_(1);
    a.x.fill_(0x1p-6 + 0x1p-16);
    weight_gradient(Way::columns, device, s, a);
    for (const double value : a.weight.to_vector<double>()) EXPECT_EQ(value, 1 + 0x1p-10);
  }
}

/// A forward map on new arrays of this dtype, compared with the CPU.
void expect_forward(const ConvShape& s, DType dtype = DType::f32) {
  expect_same([&](Device device, Trace& trace) {
    const Arrays a(s, all(dtype), device);
    forward(Way::chosen, device, s, a, nullptr);
    trace.add("y", a.y, 8);
  });
}

/// In a process that has not opened the library yet.
void use_without_library() {
  setenv("MEZZO_CUDNN", "/nonexistent/libcudnn.so", 1);
  expect_forward(shapes()[0]);
  const bool used = kernels::cuda::dnn_conv_counts().plans != 0;
  std::exit(::testing::Test::HasFailure() ? 1 : used ? 2 : 0);
}
TEST_F(CudaConv, WithoutTheLibraryOurOwnWaysAreTaken) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(use_without_library(), ::testing::ExitedWithCode(0), "");
}

/// Whether cuDNN is there; the error without it goes with the test that wants it.
bool has_dnn() {
  const ConvShape s = shape_of(1, 8, 8, 1, moves({1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}));
  const Arrays a(s, all(DType::f32), Device::cuda(0));
  return kernels::cuda::dnn_conv(Device::cuda(0), ConvMap::forward, s, ops::view_of(a.x),
                                 ops::view_of(a.weight), ops::view_of(a.y), nullptr);
}

TEST_F(CudaConv, CudnnComputesEveryMap) {
  if (!has_dnn()) GTEST_SKIP() << "cuDNN is not there, or has no plan for a plain convolution";
  const auto before = kernels::cuda::dnn_conv_counts();
  for (const ConvShape& shape : shapes()) expect_same_maps(Way::dnn, shape, all(DType::f32));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    for (const std::size_t which : {0U, 2U, 3U, 6U, 8U})
      expect_same_maps(Way::dnn, shapes()[which], all(dtype));
  }
  const auto after = kernels::cuda::dnn_conv_counts();
  EXPECT_GT(after.runs, before.runs);
  std::cout << "cuDNN computed " << after.runs - before.runs << " maps and had no plan for "
            << after.refusals - before.refusals << " kinds of them\n";
}

#if defined(MEZZO_CUDA_EMULATED)

using emulated_cuda::Engine;

// cuDNN has no f32 results of 16-bit operands; widened ones lose nothing in TF32.
TEST_F(CudaConv, CudnnWidensOperandsOfWiderResults) {
  const ConvShape s = shapes()[2];
  for (const DType narrow : {DType::f16, DType::bf16}) {
    for (const bool channels_last : {false, true}) {
      ConvShape ordered = s;
      ordered.channels_last = channels_last;
      expect_same([&](Device device, Trace& trace) {
        const Arrays a(ordered, {narrow, DType::f32, narrow}, device);
        weight_gradient(Way::dnn, device, ordered, a);
        trace.add("weight", a.weight, 8);
      });
      EXPECT_EQ(emulated_cuda::dnn().last_engine == static_cast<int>(Engine::tensor_core), has_tf32());
    }
  }
  expect_same([&](Device device, Trace& trace) {
    const Arrays a(s, {DType::f16, DType::f64, DType::f32}, device),
        b(s, {DType::f16, DType::f32, DType::f32}, device);
    weight_gradient(Way::dnn, device, s, a);
    trace.add("weight in f64", a.weight, 8);
    forward(Way::dnn, device, s, b, nullptr);
    trace.add("y of f16 and f32", b.y, 8);
  });
  EXPECT_EQ(emulated_cuda::dnn().last_engine, static_cast<int>(emulated_cuda::Engine::general));
}

/// A shape whose plan no other test has asked for: `width` is its own.
ConvShape shape_of_width(std::int64_t width) {
  return shape_of(1, 8, 8, 1, moves({1, 2, width}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}));
}
/// The engine that a forward map takes; none when cuDNN did not compute it.
std::optional<Engine> engine_of(std::int64_t width, DType dtype) {
  const std::uint64_t before = emulated_cuda::dnn().maps;
  expect_forward(shape_of_width(width), dtype);
  if (emulated_cuda::dnn().maps == before) return {};
  return static_cast<Engine>(emulated_cuda::dnn().last_engine.load());
}

TEST_F(CudaConv, EnginesThatKeepTheContract) {
  EXPECT_EQ(engine_of(20, DType::f32), Engine::general) << "no transform, no TF32, the same bits every time";
  EXPECT_EQ(engine_of(20, DType::f16), Engine::tensor_core);
  kernels::cuda::set_dnn_workspace_limit(60000);
  EXPECT_EQ(engine_of(21, DType::f16), Engine::general) << "less workspace";
  kernels::cuda::set_dnn_workspace_limit(100);
  EXPECT_EQ(engine_of(21, DType::f16), Engine::fallback);
  kernels::cuda::set_dnn_workspace_limit(std::int64_t{1} << 30);
  emulated_cuda::dnn().mode_a = false;
  EXPECT_EQ(engine_of(22, DType::f16), Engine::fallback);
  emulated_cuda::dnn().fallback = false;
  EXPECT_EQ(engine_of(23, DType::f16), std::nullopt);
}

TEST_F(CudaConv, Tf32WhereItIsAllowed) {
  const Device device = Device::cuda(0);
  const ConvShape s = shape_of_width(24);
  for (const bool allowed : {false, true}) {
    cuda::set_allow_tf32(allowed);
    const Arrays a(s, all(DType::f32), device);
    forward(Way::dnn, device, s, a, nullptr);
    EXPECT_EQ(static_cast<Engine>(emulated_cuda::dnn().last_engine.load()),
              allowed && has_tf32() ? Engine::tensor_core : Engine::general);
  }
}

TEST_F(CudaConv, ArraysThatAreLessAligned) {
  const Device device = Device::cuda(0);
  const ConvShape s = shape_of_width(25);
  const Arrays a(s, all(DType::f16), device);
  const Tensor longer = values(1, {a.x.numel() + 1}, DType::f16, device);
  View x = ops::view_of(a.x);
  x.data = data_of(slice(longer, 0, 1));
  EXPECT_TRUE(kernels::cuda::dnn_conv(device, ConvMap::forward, s, x, ops::view_of(a.weight),
                                      ops::view_of(a.y), nullptr));
  EXPECT_EQ(static_cast<Engine>(emulated_cuda::dnn().last_engine.load()), Engine::general);
}

TEST_F(CudaConv, PlansAndRefusalsAreKept) {
  const auto asked = [](const auto& body) {
    const auto before = kernels::cuda::dnn_conv_counts();
    const std::uint64_t heuristics = emulated_cuda::dnn().heuristics;
    body();
    const auto after = kernels::cuda::dnn_conv_counts();
    return std::vector<std::uint64_t>{after.plans - before.plans, after.refusals - before.refusals,
                                      after.runs - before.runs, emulated_cuda::dnn().heuristics - heuristics};
  };
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(30)); }), (Counts{1, 0, 1, 1}));
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(30)); }), (Counts{0, 0, 1, 0}));
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(31)); }), (Counts{1, 0, 1, 1})) << "other sizes";
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(30), DType::f64); }), (Counts{1, 0, 1, 1}));
  emulated_cuda::dnn().mode_a = emulated_cuda::dnn().fallback = false;
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(32)); }), (Counts{1, 1, 0, 2}))
      << "both modes are asked";
  EXPECT_EQ(asked([] { expect_forward(shape_of_width(32)); }), (Counts{0, 0, 0, 0}));
}

TEST_F(CudaConv, AFailedExecutionIsComputedAnotherWay) {
  emulated_cuda::dnn().executes = false;
  EXPECT_EQ(engine_of(33, DType::f32), std::nullopt);
}

TEST_F(CudaConv, TheFastestPlanIsFoundOnceAndKept) {
  emulated_cuda::DnnState& state = emulated_cuda::dnn();
  state.slowness[static_cast<int>(Engine::tensor_core)] = 20;
  const auto maps = [&](bool timed) {
    cuda::set_benchmark(timed);
    const std::uint64_t before = state.maps;
    expect_forward(shape_of_width(34), DType::f16);
    return state.maps - before;
  };
  EXPECT_EQ(maps(false), 1U) << "off: the recommended plan, untimed";
  EXPECT_EQ(state.last_engine, static_cast<int>(Engine::tensor_core));
  EXPECT_EQ(maps(true), 2U * 6 + 1) << "two plans, 1 + 5 times each, and the map";
  EXPECT_EQ(state.last_engine, static_cast<int>(Engine::general));
  EXPECT_EQ(maps(true), 1U) << "timed once";
  EXPECT_EQ(maps(false), 1U);
  EXPECT_EQ(state.last_engine, static_cast<int>(Engine::general)) << "what was found stays";
}

TEST_F(CudaConv, NoPlanIsMadeOrTimedInACapture) {
  const Device device = Device::cuda(0);
  const ConvShape s = shape_of_width(35);
  const Arrays a(s, all(DType::f16), device);
  const auto maps = [&](const auto& work) {
    const std::uint64_t before = emulated_cuda::dnn().maps;
    work();
    return emulated_cuda::dnn().maps - before;
  };
  const auto run = [&] { forward(Way::chosen, device, s, a, nullptr); };
  std::optional<cuda::Graph> graph;
  const auto capture = [&] { graph.emplace(device, run); };
  cuda::set_benchmark(true);
  const auto before = kernels::cuda::dnn_conv_counts();
  EXPECT_EQ(maps(capture), 0U);
  EXPECT_EQ(kernels::cuda::dnn_conv_counts().plans, before.plans);
  cuda::set_benchmark(false);
  run();
  cuda::set_benchmark(true);
  EXPECT_EQ(maps(capture), 1U) << "the plan that is known, untimed";
  EXPECT_EQ(maps(run), 1U) << "a graph holds the plan: no other takes its place";
  graph.reset();
  EXPECT_GT(maps(run), 1U) << "timed: no graph holds it";
}

#endif

// 2049 - 1 in f16: a sum rounded before the bias is added would give 2047.
TEST_F(CudaConv, ABiasTakesPartInTheOneRounding) {
  const Device device = Device::cuda(0);
  const ConvShape s = shape_of(1, 1, 2, 1, moves({1, 2, 4}, {1, 1, 3}));
  for (const bool by_dnn : {true, false}) {
    kernels::cuda::set_conv_by_dnn(by_dnn);
    const Arrays a(s, all(DType::f16), device);
    a.x.fill_(1), a.weight.fill_(683);
    const Tensor bias = full({2}, -1, {.dtype = DType::f16, .device = device});
    forward(Way::chosen, device, s, a, data_of(bias));
    for (const double value : a.y.to_vector<double>()) EXPECT_EQ(value, 2048);
  }
}

}  // namespace
}  // namespace mezzo
