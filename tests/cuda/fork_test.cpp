// CUDA does not survive a fork(): a child that asks for it gets one line, and its parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "cuda/device_fixture.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

using Fork = test::CudaTest;

TEST_F(Fork, AChildIsToldThatItHasNoGpu) {
  const Tensor x = full({4}, 2.0, {.device = Device::cuda(0)});
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    try {
      static_cast<void>(x + x);
      _exit(1);
    } catch (const StateError& error) {
      _exit(std::string(error.what()).find("child of its fork()") == std::string::npos ? 2 : 0);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(4, 4.0F));
}

}  // namespace
}  // namespace mezzo
