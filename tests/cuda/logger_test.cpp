// What a logger reads from the device: all tensors of a call at once, and nothing that no sink wants.
#include "mezzo/train/logger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

class CudaLogger : public twin::CudaTwin {};

/// Remembers the values.
class Values final : public train::Sink {
 public:
  Values() : Sink(2) {}
  void write(const train::LogRecord& record) override {
    for (const train::LogScalar& scalar : record.values)
      values.push_back(std::string(scalar.name) + "=" + number_text(scalar.value));
  }
  std::vector<std::string> values;
};

TEST_F(CudaLogger, OneReadPerDevice) {
  const auto sink = std::make_shared<Values>();
  train::Logger logger({sink});
  const Tensor loss = tensor(0.5).cuda().requires_grad_() * 3, half = tensor({0.25}).cuda().to(DType::f16);
  const Tensor count = tensor(7).cuda(), host = tensor(2.5), other = tensor(1.5);
  const std::uint64_t before = host_reads();
  const auto log = [&](std::int64_t step) {
    logger.log(step,
               {{"loss", loss}, {"x", 1}, {"host", host}, {"half", half}, {"n", count}, {"other", other}});
  };
  log(1);
  EXPECT_EQ(host_reads() - before, 0U);
  log(2);
  EXPECT_EQ(host_reads() - before, 2U) << "one of the device, one of the CPU";
  EXPECT_EQ(sink->values,
            (std::vector<std::string>{"loss=1.5", "x=1", "host=2.5", "half=0.25", "n=7", "other=1.5"}));
}

}  // namespace
}  // namespace mezzo
