// The CPU's definitions of the normalizations: the compute type becomes a template argument.
#include "mezzo/kernels/norm/cpu_channel_norm.h"
#include "mezzo/kernels/norm/cpu_row_norm.h"
#include "mezzo/kernels/norm/norm.h"

namespace mezzo::kernels::cpu {

void row_norm(RowNorm kind, const View& out, const View& x, const NormParameters& parameters, double eps,
              DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) { row_norm<T>(kind, out, x, parameters, eps); });
}

void row_norm_backward(RowNorm kind, const RowNormGradients& out, const View& grad, const View& x,
                       const void* weight, double eps, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    row_norm_backward<T>(kind, out, grad, x, static_cast<const T*>(weight), eps);
  });
}

std::int64_t row_norm_parts(std::int64_t rows, std::int64_t /*n*/) { return row_norm_parts(rows); }

void channel_norm(const ChannelLayout& layout, const View& out, const View& x,
                  const NormParameters& parameters, const ChannelStatistics& statistics, double eps,
                  DType compute) {
  dispatch_real(compute,
                [&]<class T>(TypeTag<T>) { channel_norm<T>(layout, out, x, parameters, statistics, eps); });
}

void channel_norm_backward(const ChannelLayout& layout, const ChannelNormGradients& out, const View& grad,
                           const View& x, const void* weight, const ChannelStatistics& statistics, double eps,
                           DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    channel_norm_backward<T>(layout, out, grad, x, static_cast<const T*>(weight), statistics, eps);
  });
}

}  // namespace mezzo::kernels::cpu
