// How the end of a call is judged, and the pools of arguments.
#include "misuse/misuse.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace mezzo::misuse {

namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

/// The call at work, for whoever looks at a process that died.
char at_work[512];

extern "C" void say_what_died(int signal) {
  const auto say = [](const char* text) {
    static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
  };
  say("\nmisuse: died in ");
  say(at_work);
  say("\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Whether a message is one line of the form that core/error.h promises.
bool is_well_formed(const Error& error) {
  const std::string text = error.what();
  return text.find('\n') == std::string::npos && !error.op().empty() && !error.expected().empty() &&
         !error.got().empty() && text.rfind(error.op() + ": expected ", 0) == 0;
}

}  // namespace

std::string fault_of(const std::string& call, const std::function<void()>& run) {
  static const bool handled = [] {
    for (const int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGALRM}) std::signal(signal, say_what_died);
    return true;
  }();
  static_cast<void>(handled);
  std::strncpy(at_work, call.c_str(), sizeof(at_work) - 1);
  alarm(60);  // a call that hangs dies and is named
  std::string fault;
  try {
    run();
  } catch (const Error& error) {
    if (!is_well_formed(error)) fault = std::string("a message of another form: ") + error.what();
  } catch (const std::exception& error) {
    fault = std::string("throws no mezzo::Error: ") + error.what();
  } catch (...) {
    fault = "throws what is no std::exception";
  }
  alarm(0);
  return fault;
}

void expect_sound(const std::string& call, const std::function<void()>& run) {
  const std::string fault = fault_of(call, run);
  EXPECT_TRUE(fault.empty()) << call << ": " << fault;
}

Draw::Draw(std::string_view seed) : state_(1469598103934665603U) {
  for (const char c : seed) state_ = (state_ ^ static_cast<unsigned char>(c)) * 1099511628211U;
}

std::size_t Draw::below(std::size_t n) {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return static_cast<std::size_t>((state_ >> 33) % n);
}

std::int64_t draw_int(Draw& draw) {
  const std::int64_t value =
      draw.once_in(3)
          ? draw.of<std::int64_t>({kMax, kMin, kMax - 1, std::int64_t{1} << 50, std::int64_t{1} << 62, -7})
          : draw.of<std::int64_t>({0, 1, 2, 3, -1, -2});
  draw.shown += " " + std::to_string(value);
  return value;
}

double draw_real(Draw& draw) {
  const double value = draw.of<double>({0.0, 0.5, 1.0, 2.0, -1.0, kNan, kInf, -kInf, 1e300, -1e300, 5e-324});
  draw.shown += " " + number_text(value);
  return value;
}

Dims draw_dims(Draw& draw) {
  Dims dims;
  for (std::size_t n = draw.below(draw.once_in(4) ? 9 : 4); n > 0; --n) dims.push_back(draw_int(draw));
  return dims;
}

Tensor draw_tensor(Draw& draw) {
  static const std::vector<Shape> shapes{{},     {0},       {3},       {2, 3},       {3, 2},
                                         {3, 3}, {2, 0, 3}, {2, 3, 4}, {1, 2, 4, 4}, {2, 2, 3, 4, 4}};
  if (draw.once_in(10)) {
    draw.shown += draw.once_in(2) ? " undefined" : " moved-from";
    Tensor gone = ones({2});
    const Tensor there = std::move(gone);
    return gone;  // NOLINT: that is the point
  }
  const Shape shape = draw.of(shapes);
  const DType dtype = draw.once_in(3) ? Drawn<DType>::from(draw) : DType::f32;
  draw.shown += " " + to_string(dtype) + to_string(shape);
  const DType filled = is_float8(dtype) ? DType::f32 : dtype;
  Tensor x = full(shape, draw.of<double>({0.0, 1.0, 0.5, 2.0, -1.0}), {.dtype = filled});
  if (draw.once_in(8)) x = full(shape, draw.of<Scalar>({kMax, kMin, kNan, kInf}), {.dtype = filled});
  x = to(x, dtype);
  if (draw.once_in(8) && shape.size() > 1) x = transpose(x, 0, 1);
  if (draw.once_in(5) && is_floating(dtype)) return x.detach().requires_grad_();
  return x;
}

void sweep(const std::vector<Function>& functions, int times) {
  ASSERT_FALSE(functions.empty());
  for (const Function& function : functions) {
    int faults = 0;
    for (int i = 0; i < times && faults < 2; ++i) {
      const std::string call = function.name + ", call " + std::to_string(i);
      Draw draw(call);
      const std::string fault = fault_of(call, [&] { function.call(draw); });
      if (fault.empty()) continue;
      ++faults;
      ADD_FAILURE() << call << " of" << draw.shown << ": " << fault;
    }
  }
}

}  // namespace mezzo::misuse
