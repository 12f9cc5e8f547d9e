// How tensors are read from files.
#pragma once

namespace mezzo::io {

struct LoadOptions {
  /// Tensors on the CPU share the file's pages, which are read when they are first used and copied when they
  /// are written to: the file stays as it is. It must not be made shorter while a tensor of it is alive (the
  /// system ends a program that reads what is gone); to replace it, as io::save does, is fine. Source:
  /// torch.load(mmap=True).
  bool mapped = false;
};

}  // namespace mezzo::io
