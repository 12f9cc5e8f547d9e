// PyTorch's files: .pt and .pth as torch.save writes them, and wrote them before version 1.6. Nothing in a
// file is run.
#pragma once

#include <string>

#include "mezzo/core/tensor.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/io/torch_value.h"

namespace mezzo::io {

/// The value that torch.save was given, with its tensors on `device`, without history:
///   net.load_state_dict(io::load_torch("resnet18.pth").tensors());
/// State dicts of models and optimizers, and dicts, lists and tuples of them with numbers, strings and None.
/// Parameters are tensors that ask for no gradient; tensors that shared a storage share one again; sizes
/// are tuples, dtypes and devices strings. With `mapped`, what is stored uncompressed (as torch.save does)
/// and aligned to its elements shares the file's pages. Dtypes: float16, bfloat16, float32, float64,
/// float8_e4m3fn, float8_e5m2, int8, int16, int32, int64, uint8, bool; uint16 -> i32, uint32 and uint64 ->
/// i64. With `names` or `prefix`, which are names as tensors() gives them, all other tensors are None.
/// Throws: IoError, naming the file and the byte of its pickle, for whatever is not in that list: a call or a
/// reference of another name of Python's ("got a call of os.system"), other opcodes, tensors beyond their
/// storage, more than 1,048,576 values or 128 levels, names that are asked for and not there, and TorchScript
/// archives; and where the file is no sound zip archive or, as before PyTorch 1.6, pickles and storages one
/// behind the other. The sums of stored entries are not checked, as torch.load does not and torch.save can
/// leave them out. OutOfMemoryError. Source: torch.load(path, weights_only=True, mmap=mapped).
[[nodiscard]] TorchValue load_torch(const std::string& path, Device device = Device::cpu(),
                                    const LoadOptions& options = {});

/// Writes a file that torch.load reads (also with weights_only=True) as a dict of tensors, all or nothing: a
/// state dict of PyTorch's where the names are its module's. Tensors of one storage and layout (tied weights)
/// are one in the file; others are written row-major.
/// Throws: ValueError for an undefined tensor, IoError for a name that occurs twice or is no UTF-8 and for a
/// path that cannot be written. Source: torch.save.
void save_torch(const TensorFile::NamedTensors& tensors, const std::string& path);

}  // namespace mezzo::io
