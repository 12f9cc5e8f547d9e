// The emulated cuDNN against a convolution by hand, what it refuses, and its header against NVIDIA's.
#include "mezzo/kernels/cuda/vendor/dnn.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>

#include "emulated/support.h"
#include "emulated_cuda/dnn.h"

namespace emulated_test {
namespace {

using mezzo::kernels::cuda::check_dnn;
using mezzo::kernels::cuda::dnn;
using mezzo::kernels::cuda::DnnDescriptor;
using mezzo::kernels::cuda::DnnRefusal;
using Sizes = std::vector<std::int64_t>;

/// What cuDNN says to it.
template <class F>
cudnnStatus_t status_of(const F& f) {
  try {
    f();
  } catch (const DnnRefusal& refusal) {
    return refusal.status;
  }
  return CUDNN_STATUS_SUCCESS;
}

/// Where a test makes one thing differ from a forward convolution that is right: y[t] = x[2 t - 1] + 10 x[2
/// t]
/// + 100 x[2 t + 1] for 5 elements of x, with 1 zero on both sides.
struct Spec {
  Sizes x_sizes{1, 1, 1, 5}, x_strides{5, 5, 5, 1}, y_sizes{1, 1, 1, 3};
  Sizes stride{1, 2}, before{0, 1}, behind{0, 1};
  std::int64_t alignment = 4;
  cudnnBackendAttributeType_t factors = CUDNN_TYPE_FLOAT;
  float beta = 0;
};

class Convolution {
 public:
  explicit Convolution(const Spec& spec = {}) : s(spec) {}

  DnnDescriptor tensor(std::int64_t id, const Sizes& sizes, const Sizes& strides) const {
    DnnDescriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, s.alignment);
    d.finalize();
    return d;
  }
  DnnDescriptor moves() const {
    DnnDescriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
    d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride);
    d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Sizes{1, 1});
    d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.before);
    d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.behind);
    d.finalize();
    return d;
  }
  DnnDescriptor operation() const {
    DnnDescriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, moves());
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(1, s.x_sizes, s.x_strides));
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(2, {1, 1, 1, 3}, {3, 3, 3, 1}));
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(3, s.y_sizes, {3, 3, 3, 1}));
    const double one = 1;
    const float one_f32 = 1;
    const bool wide = s.factors == CUDNN_TYPE_DOUBLE;
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, s.factors, 1,
          wide ? static_cast<const void*>(&one) : &one_f32);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, s.beta);
    d.finalize();
    return d;
  }
  /// The plan of engine `which` in heuristic mode A.
  DnnDescriptor plan(std::size_t which) {
    if (handle == nullptr) check_dnn(dnn()->create(&handle));
    const DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation());
    graph.finalize();
    const DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    heuristic.finalize();
    const auto configs = heuristic.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    DnnDescriptor result(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    result.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    result.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs.at(which));
    result.finalize();
    return result;
  }
  DnnDescriptor pack(const Sizes& ids, const std::vector<void*>& pointers, void* workspace) const {
    DnnDescriptor d(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    d.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    d.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
          static_cast<std::int64_t>(pointers.size()), pointers.data());
    d.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    d.finalize();
    return d;
  }
  cudnnStatus_t run(const DnnDescriptor& plan, const DnnDescriptor& pack) const {
    return dnn()->execute(handle, plan.get(), pack.get());
  }

  Spec s;
  cudnnHandle_t handle = nullptr;
};

class Cudnn : public Emulated {
 protected:
  void SetUp() override {
    Emulated::SetUp();
    x = to_device<float>({1, 2, 3, 4, 5}), weight = to_device<float>({1, 10, 100});
    y = to_device<float>({7, 8, 9}), workspace = device_array<char>(256);
  }
  float *x = nullptr, *weight = nullptr, *y = nullptr;
  char* workspace = nullptr;
};

/// Without alignment to 16 bytes, mode A has refusing, nondeterministic, winograd and general ones.
constexpr std::size_t kRefusing = 0, kGeneral = 3;

TEST_F(Cudnn, ComputesAConvolutionByHand) {
  for (const float beta : {0.0F, 2.0F}) {
    y = to_device<float>({7, 8, 9});
    Convolution conv({.beta = beta});
    const DnnDescriptor plan = conv.plan(kGeneral);
    ASSERT_EQ(conv.run(plan, conv.pack({1, 2, 3}, {x, weight, y}, workspace)), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(to_host(y, 3), (std::vector<float>{210 + beta * 7, 432 + beta * 8, 54 + beta * 9}));
  }
}

TEST_F(Cudnn, AttributesAreCheckedOneByOne) {
  const DnnDescriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                       const void* values) { return dnn()->set(d.get(), name, type, count, values); };
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, nine), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, nine), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 9, nine), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nullptr),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 4, nine), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nine), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(dnn()->finalize(d.get()), CUDNN_STATUS_BAD_PARAM) << "without its other attributes";
  const DnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(status_of([&] { operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, d); }),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  const DnnDescriptor whole = Convolution().tensor(1, {1, 1, 1, 5}, {5, 5, 5, 1});
  EXPECT_EQ(dnn()->set(whole.get(), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nine),
            CUDNN_STATUS_BAD_PARAM)
      << "after it is finalized";
  EXPECT_EQ(dnn()->finalize(whole.get()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(dnn()->descriptor_destroy(nullptr), CUDNN_STATUS_BAD_PARAM);
  std::int64_t count = 0;
  EXPECT_EQ(dnn()->get(whole.get(), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, &count, nullptr),
            CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
}

TEST_F(Cudnn, ConvolutionsThatFitNothingAreRefused) {
  const auto refused = [](const Spec& spec) {
    return status_of([&] { static_cast<void>(Convolution(spec).operation()); }) == CUDNN_STATUS_BAD_PARAM;
  };
  EXPECT_FALSE(refused({}));
  EXPECT_FALSE(refused({.behind = {0, 2}})) << "the stride rounds one away";
  EXPECT_TRUE(refused({.behind = {0, 3}})) << "y is larger then";
  EXPECT_TRUE(refused({.behind = {0, -1}}));
  EXPECT_TRUE(refused({.stride = {1, 0}}));
  EXPECT_TRUE(refused({.stride = {1, 2, 1}}));
  EXPECT_TRUE(refused({.x_sizes = {1, 2, 1, 5}, .y_sizes = {2, 1, 1, 3}})) << "another batch";
  EXPECT_TRUE(refused({.x_sizes = {1, 1, 1, 0}}));
  EXPECT_TRUE(refused({.x_sizes = {1, 1, 5}, .x_strides = {5, 5, 1}})) << "fewer dims";
  EXPECT_TRUE(refused({.x_strides = {5, 5, 1}}));
  EXPECT_TRUE(refused({.alignment = 3}));
  EXPECT_TRUE(refused({.factors = CUDNN_TYPE_DOUBLE})) << "factors of f32 are float";
}

TEST_F(Cudnn, ExecutionsThatCannotBeRightAreRefused) {
  Convolution conv;
  EXPECT_EQ(status_of([&] { static_cast<void>(conv.plan(kRefusing)); }), CUDNN_STATUS_NOT_SUPPORTED);
  const DnnDescriptor plan = conv.plan(kGeneral);
  EXPECT_EQ(plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE), 256);
  const auto run = [&](const Sizes& ids, const std::vector<void*>& pointers, void* memory) {
    return conv.run(plan, conv.pack(ids, pointers, memory));
  };
  EXPECT_EQ(run({1, 2, 4}, {x, weight, y}, workspace), CUDNN_STATUS_BAD_PARAM) << "no y";
  EXPECT_EQ(run({1, 2, 3}, {x, weight, y}, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(run({1, 2, 3}, {&conv, weight, y}, workspace), CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
      << "host memory";
  EXPECT_EQ(run({1, 2, 3}, {reinterpret_cast<char*>(x) + 2, weight, y}, workspace),
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(status_of([&] {
              static_cast<void>(conv.pack({1, 2}, {x, weight, y}, workspace));
            }),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(conv.run(conv.pack({1, 2, 3}, {x, weight, y}, workspace), plan), CUDNN_STATUS_BAD_PARAM)
      << "plan and pack changed places";
}

std::optional<std::string> text_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return {};
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}
/// The enumerators of a header that say their values.
std::map<std::string, int> enumerators(const std::string& text) {
  std::map<std::string, int> result;
  const std::regex pattern(R"((CUDNN_\w+)\s*(?:CUDNN_DEPRECATED_ENUM)?\s*=\s*(-?\d+))");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    result.emplace((*it)[1], std::stoi((*it)[2]));
  return result;
}

TEST(CudnnHeader, HasNvidiasValues) {
  const char* const home = std::getenv("CUDA_HOME");
  std::optional<std::string> nvidia;
  for (const std::string& folder :
       {std::string(home == nullptr ? "" : home) + "/include", std::string("/usr/local/cuda/include"),
        std::string("/usr/include"), std::string("/usr/include/x86_64-linux-gnu")}) {
    for (const char* const name : {"/cudnn_graph_v9.h", "/cudnn_graph.h"})
      if (!nvidia) nvidia = text_of(folder + name);
  }
  if (!nvidia) GTEST_SKIP() << "cuDNN's headers are not installed";
  const auto theirs = enumerators(*nvidia);
  const auto ours = enumerators(text_of(MEZZO_TEST_DATA "/emulated_cuda/include/cudnn_graph.h").value_or(""));
  ASSERT_GT(ours.size(), 80U);
  for (const auto& [name, value] : ours) {
    const auto found = theirs.find(name);
    ASSERT_NE(found, theirs.end()) << name;
    // How many notes there are grows from version to version.
    if (name != "CUDNN_NUMERICAL_NOTE_TYPE_COUNT") {
      EXPECT_EQ(value, found->second) << name;
    }
  }
}

}  // namespace
}  // namespace emulated_test
