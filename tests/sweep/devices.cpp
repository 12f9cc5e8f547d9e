// The CUDA device, a GPU or the emulated one, against the CPU.
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

/// `inputs` and `there` hold the same values on the CPU and on the device.
void compare(const Case& one, const Tensors& inputs, const Tensors& there, const std::string& label,
             Findings& findings) {
  Result want;
  try {
    want = run(one, forward_of(one), inputs);
  } catch (const Error&) {
    return;  // a dtype that the op refuses; the checks of dtypes judge that
  }
  findings.ran(Check::devices);
  const Result result = run(one, forward_of(one), there);
  const Result got{moved(result.outputs, Device::cpu()), moved(result.gradients, Device::cpu())};
  if (auto found = ways_differ(one.info(), got, want, inputs, true)) {
    findings.fail(Check::devices, label + ": " + *found);
  }
}

/// Each dtype in its plain form, and f32 and f16 with strides.
void compare_all(const Case& one, Findings& findings) {
  for (const DType dtype : kComputeDTypes) {
    const Tensors inputs = make_inputs(one, dtype);
    const std::string label = one.label + " " + to_string(dtype);
    compare(one, inputs, moved(inputs, Device::cuda()), label, findings);
    if (dtype != DType::f32 && dtype != DType::f16) continue;
    for (const Stride stride : {Stride::reversed, Stride::spread, Stride::channels_last}) {
      compare(one, strided_copies(inputs, stride), strided_copies(moved(inputs, Device::cuda()), stride),
              label + " strided", findings);
    }
  }
}

}  // namespace

void check_devices(const Case& one, Findings& findings) {
  if (!Device::best().is_cuda()) return;
  compare_all(one, findings);
  if (!one.info().elementwise) return;
  // Samples are smaller than a block: the same on several, and a rest.
  Case longer = one;
  longer.label += " of 5003";
  for (SampleInput& input : longer.inputs) input.shape = {5003};
  compare_all(longer, findings);
}

}  // namespace mezzo::sweep
