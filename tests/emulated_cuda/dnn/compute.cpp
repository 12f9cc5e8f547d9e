// The arithmetic of the emulated cuDNN: plain loops over all products, added up in f64, and one rounding.
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "descriptor.h"
#include "mezzo/core/float16.h"

namespace emulated_cuda::dnn_library {
namespace {

using Index = std::vector<std::int64_t>;
enum : std::size_t { kX, kWeight, kY };

/// Calls f with a value of the type that elements are stored as.
template <class F>
decltype(auto) with_type(cudnnDataType_t type, const F& f) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return f(mezzo::Half{});
    case CUDNN_DATA_BFLOAT16:
      return f(mezzo::BFloat16{});
    case CUDNN_DATA_DOUBLE:
      return f(double{});
    default:
      return f(float{});
  }
}

double load(const Task& task, std::size_t array, std::int64_t offset) {
  return with_type(task.types[array], [&](auto type) -> double {
    using T = decltype(type);
    return static_cast<double>(static_cast<const T*>(task.data[array])[offset]);
  });
}
void store(const Task& task, std::size_t array, std::int64_t offset, double value) {
  with_type(task.types[array], [&](auto type) {
    using T = decltype(type);
    if constexpr (sizeof(T) == 2)
      static_cast<T*>(task.data[array])[offset] = T(static_cast<float>(value));
    else
      static_cast<T*>(task.data[array])[offset] = static_cast<T>(value);
  });
}

/// To the 10 bits of TF32's mantissa, half up, where the engine does that.
double rounded(const Task& task, double x) {
  const bool tf32 =
      task.engine == static_cast<int>(Engine::tensor_core) && task.types[kX] == CUDNN_DATA_FLOAT;
  if (!tf32 || !std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(static_cast<float>(x)) + 0x1000U) & ~0x1FFFU);
}

std::int64_t offset(const Task& task, std::size_t array, const Index& at) {
  std::int64_t result = 0;
  for (std::size_t d = 0; d < at.size(); ++d) result += at[d] * task.strides[array][d];
  return result;
}

/// The next index in row-major order; false behind the last.
bool advance(Index& at, const Index& sizes) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < sizes[d]) return true;
    at[d] = 0;
  }
  return false;
}

/// Room for a number at each place of the array, from its first element to its last.
std::vector<double> room_for(const Task& task, std::size_t array) {
  Index last = task.sizes[array];
  for (std::int64_t& size : last) --size;
  return std::vector<double>(static_cast<std::size_t>(offset(task, array, last)) + 1);
}

/// The operand as numbers, each where its element is in the array.
std::vector<double> operand(const Task& task, std::size_t array) {
  std::vector<double> numbers = room_for(task, array);
  Index at(task.sizes[array].size());
  do {
    const std::int64_t from = offset(task, array, at);
    numbers[static_cast<std::size_t>(from)] = rounded(task, load(task, array, from));
  } while (advance(at, task.sizes[array]));
  return numbers;
}

/// Offsets of an element of x and of the one of the weight that it meets, in their arrays.
struct Pair {
  std::int64_t x, weight;
};

/// What meets at the place y, of the first channel of its group; what lies in the padding is left out.
void find_pairs(const Task& task, const Index& y, std::vector<Pair>& pairs) {
  const std::int64_t group = y[1] / (task.sizes[kY][1] / (task.sizes[kX][1] / task.sizes[kWeight][1]));
  const std::size_t dims = y.size();
  Index sizes = task.sizes[kWeight], weight(dims), x(dims);
  sizes[0] = sizes[1] = 1;
  x[0] = y[0], x[1] = group * task.sizes[kWeight][1];
  pairs.clear();
  do {
    bool inside = true;
    for (std::size_t d = 2; d < dims; ++d) {
      x[d] = y[d] * task.stride[d - 2] - task.padding[d - 2] + weight[d] * task.dilation[d - 2];
      inside = inside && x[d] >= 0 && x[d] < task.sizes[kX][d];
    }
    if (inside) {
      pairs.push_back({offset(task, kX, x), offset(task, kWeight, weight) + y[1] * task.strides[kWeight][0]});
    }
  } while (advance(weight, sizes));
}

/// Whether an engine's notes forbid mezzo to take it.
bool is_forbidden(int engine) {
  return engine == static_cast<int>(Engine::nondeterministic) || engine == static_cast<int>(Engine::winograd);
}

}  // namespace

void compute(const Task& task) {
  std::this_thread::sleep_for(std::chrono::milliseconds(task.milliseconds));
  if (task.workspace != nullptr)
    std::memset(task.workspace, 0xFF, static_cast<std::size_t>(task.workspace_bytes));
  const std::size_t result = task.map == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? kY
                             : task.map == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                                 ? kX
                                 : kWeight;
  const std::size_t dims = task.sizes[kX].size();
  std::array<std::vector<double>, 3> numbers;
  for (std::size_t array = 0; array < 3; ++array)
    numbers[array] = array == result ? room_for(task, array) : operand(task, array);
  const auto at_place = [](std::vector<double>& array, std::int64_t place) -> double& {
    return array[static_cast<std::size_t>(place)];
  };
  Index y(dims);
  std::vector<Pair> pairs;
  do {
    find_pairs(task, y, pairs);
    double& of_y = at_place(numbers[kY], offset(task, kY, y));
    for (std::int64_t channel = 0; channel < task.sizes[kWeight][1]; ++channel) {
      for (const Pair& pair : pairs) {
        double& of_x = at_place(numbers[kX], pair.x + channel * task.strides[kX][1]);
        double& of_weight = at_place(numbers[kWeight], pair.weight + channel * task.strides[kWeight][1]);
        if (result == kY)
          of_y += of_x * of_weight;
        else if (result == kX)
          of_x += of_y * of_weight;
        else
          of_weight += of_x * of_y;
      }
    }
  } while (advance(y, task.sizes[kY]));
  const bool invalid = is_forbidden(task.engine) || (task.captured && task.plan.expired());
  Index at(dims);
  do {
    const std::int64_t to = offset(task, result, at);
    const double old = task.beta == 0 ? 0 : task.beta * load(task, result, to);
    const double sum = task.alpha * at_place(numbers[result], to) + old;
    store(task, result, to, invalid ? std::numeric_limits<double>::quiet_NaN() : sum);
  } while (advance(at, task.sizes[result]));
}

}  // namespace emulated_cuda::dnn_library
