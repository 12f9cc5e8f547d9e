// MEZZO_KERNEL: which definition a call reaches, and what a call says where the device has none.
#include "mezzo/kernels/device_kernel.h"

#include <gtest/gtest.h>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"

namespace mezzo::kernels {

MEZZO_KERNEL(kernel_of_both, int(int x));
MEZZO_KERNEL(kernel_of_the_cpu, void(int& x));

int cpu::kernel_of_both(int x) { return x + 1; }
int cuda::kernel_of_both(Device device, int x) { return 100 * (device.index + 1) + x; }
void cpu::kernel_of_the_cpu(int& x) { ++x; }

namespace {

TEST(DeviceKernel, ReachesTheDefinitionOfTheDevice) {
  EXPECT_EQ(kernel_of_both(Device::cpu(), 7), 8);
  EXPECT_EQ(kernel_of_both(Device::cuda(1), 7), 207);
}

TEST(DeviceKernel, HandsReferencesOn) {
  int x = 1;
  kernel_of_the_cpu(Device::cpu(), x);
  EXPECT_EQ(x, 2);
}

TEST(DeviceKernel, RefusesADeviceWithoutADefinition) {
  int x = 1;
  EXPECT_THROW(kernel_of_the_cpu(Device::cuda(0), x), DeviceError);
  EXPECT_EQ(x, 1);
}

TEST(DeviceKernel, WithoutADeviceThereAreNoPlans) {
  if (mezzo::cuda::is_available()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(mezzo::cuda::plans(), "");
}

}  // namespace

}  // namespace mezzo::kernels
