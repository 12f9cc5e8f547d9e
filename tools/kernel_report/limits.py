"""The kernels that are looked at, and their limits: what CI refuses to see get worse. A limit is today's value; the goal
stands beside it. Whoever makes a kernel better lowers its limit."""
import dataclasses

COMPILER = "13.0"  # of nvcc, whose registers and instructions these are; another one is reported and not judged

SOURCES = ("tools/kernel_report/probes.cu", "kernels/softmax/cuda_softmax.cu", "kernels/softmax/cuda_class_loss.cu",
           "kernels/norm/cuda_row_norm.cu", "kernels/scaler/cuda.cu", "optim/sgd.cu",
           "kernels/conv/cuda_strips.cu")


@dataclasses.dataclass
class Limit:
    title: str
    kernel: str  # regular expression of its name
    threads: int  # of a block
    registers: int  # in steps of 8, as processors deal them out
    spills: int = 0  # loads and stores of local memory
    # Of the round that is counted: what a thread loads and stores, and how many elements these are. Both of two cases with
    # opposite predicates count; what is really loaded and stored is `moves` then.
    loads: int = 0
    stores: int = 0
    elements: int = 0
    instructions: float = 0  # per element
    goal: float = 0
    moves: tuple = ()


LIMITS = (
    Limit("relu f16", r"pointwise_linear<.*ReluFn, 1", 128, 32),
    Limit("finite check f16", r"look_at_batch<false, 16", 256, 32, 0, 8, 0, 4, 6.75),
    Limit("softmax f16, to 512", r"rows_in_registers<2u?l?, 1, .*SoftmaxRow<float, false>", 128, 32, 0, 8, 8, 4, 176.25),
    Limit("softmax, to 16384", r"rows_in_registers<2u?l?, 4, \(.*RowPacks\)0, .*SoftmaxRow<float, false>", 1024, 48),
    Limit("softmax f16, to 16384", r"rows_in_registers<2u?l?, 4, \(.*RowPacks\)1, .*SoftmaxRow<float, false>", 1024, 40),
    Limit("softmax backward, to 512", r"rows_in_registers<3u?l?, 1, .*SoftmaxBackwardRow<float, false>", 128, 40),
    Limit("softmax backward, to 16384", r"rows_in_registers<3u?l?, 4, \(.*RowPacks\)0, .*SoftmaxBackwardRow<float, false>",
          1024, 64),
    Limit("softmax, long rows", r"rows_in_chunks<2u?l?, .*SoftmaxRow<float, false>", 256, 80),
    Limit("softmax backward, long rows", r"rows_in_chunks<3u?l?, .*SoftmaxBackwardRow<float, false>", 256, 56),
    Limit("cross_entropy, to 16384", r"rows_in_registers<1u?l?, 4, \(.*RowPacks\)0, .*CrossEntropyRow<float>", 1024, 56),
    Limit("cross_entropy, long rows", r"rows_in_chunks<1u?l?, .*CrossEntropyRow<float>", 256, 80),
    Limit("cross_entropy backward, long rows", r"rows_in_chunks<2u?l?, .*CrossEntropyBackwardRow<float>",
          256, 80),
    Limit("row norm, to 512", r"rows_in_registers<2u?l?, 1, .*RowNormRow<float>", 128, 40),
    Limit("row norm, to 16384", r"rows_in_registers<2u?l?, 4, \(.*RowPacks\)0, .*RowNormRow<float>", 1024, 56),
    Limit("row norm f16, to 16384", r"rows_in_registers<2u?l?, 4, \(.*RowPacks\)1, .*RowNormRow<float>", 1024, 56),
    Limit("row norm backward, to 512", r"row_norm_parts_kernel<1", 512, 64),
    Limit("row norm backward, to 8192", r"row_norm_parts_kernel<4", 512, 128),
    Limit("attention f16, 64 columns", r"flash_kernel<.*Half, 64, 64, true.*AttentionResult\)0", 128, 128),
    Limit("attention f16, gradient of q", r"flash_kernel<.*Half, 64, 64, true.*AttentionResult\)1", 128, 168, 4),
    Limit("attention f16, gradients of k, v", r"flash_kernel<.*Half, 64, 32, true.*AttentionResult\)4", 128, 168, 2),
    # Strips of eight places.
    Limit("3 x 3 strips f32", r"strips_kernel<float, 3, 1, false>", 256, 48),
    Limit("3 x 3 strips f16", r"strips_kernel<.*Half, 3, 1, false>", 256, 48),
    Limit("3 x 3 strips f32, weight", r"strip_sums_kernel<float, 3, 1>", 256, 56),
    # Four rows, or sums of four pieces, of four columns; `generate` keeps what it stores in local memory.
    Limit("rows by index, pieces", r"generate<double, .*SumPieces<float>", 256, 56, 7, 96, 0, 16, 5.375),
    Limit("rows by index, runs", r"generate<double, .*SumRows<float>", 256, 56, 7, 192, 0, 16, 10.6875),
    Limit("SGD, narrow", r"update_batch<.*SgdFn<float, 0>, float, true, .*, 16u?l?>", 256, 64),
    Limit("SGD, 8-bit momentum", r"update_packed<.*SgdFn<float, 1>.*, 16u?l?>", 256, 80, 72),
    Limit("SGD, plain", r"update_batch<.*SgdFn<float, 0>, float, false, .*, 16u?l?>", 256, 48),
)
