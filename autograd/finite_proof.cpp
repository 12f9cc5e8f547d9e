// A proof is stored with the gradient, together with the versions of the gradient and of the two operands
// that are checked in its place. Once one of the three was written, the proof is ignored.
#include "mezzo/autograd/finite_proof.h"

#include "mezzo/autograd/autograd_meta.h"

namespace mezzo {

namespace {
/// Elements of a gradient that is worth a proof: to read fewer takes less time than to note one.
constexpr std::int64_t kWorthIt = 8192;
}  // namespace

void prove_finite_by(const Tensor& product, const Tensor& a, const Tensor& b) {
  if (product.dtype() != DType::f32 || a.dtype() != DType::f16 || b.dtype() != DType::f16) return;
  const std::int64_t operand_bytes = (a.numel() + b.numel()) * size_of(DType::f16);
  if (product.numel() < kWorthIt || a.numel() == 0 || b.numel() == 0 ||
      4 * operand_bytes > product.numel() * size_of(DType::f32))
    return;
  autograd::FiniteProof& proof = autograd::ensure_meta(product).finite_proof;
  proof.version = product.version();
  proof.operands = {a, b};
  proof.operand_versions = {a.version(), b.version()};
}

std::span<const Tensor> finite_proof(const Tensor& tensor) {
  const autograd::AutogradMeta* const meta = autograd::meta_of(tensor);
  if (meta == nullptr || !meta->finite_proof.operands[0].defined()) return {};
  const autograd::FiniteProof& proof = meta->finite_proof;
  if (proof.version != tensor.version()) return {};
  for (std::size_t i = 0; i < proof.operands.size(); ++i) {
    if (proof.operand_versions[i] != proof.operands[i].version()) return {};
  }
  return proof.operands;
}

}  // namespace mezzo
