// Progress: which collective this process is at, for the messages of one that was late, failed or left.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "mezzo/dist/transport.h"

namespace mezzo::dist {

/// A collective: what a message says of it.
struct CollectiveCall {
  const char* name = "";     ///< "all_reduce"
  std::uint64_t number = 0;  ///< among the calls of its group, from 1
  std::int64_t count = 0;    ///< elements, or bytes
  std::string unit = {};     ///< "f32", "bytes", or nothing
  std::string op = {};       ///< "sum", "root 2", or nothing
};

/// Of the calls of a transport: of bytes, and of elements that are reduced.
[[nodiscard]] CollectiveCall call_of(const char* name, std::size_t bytes, std::string op = {});
[[nodiscard]] CollectiveCall call_of(const char* name, std::int64_t count, DType dtype, ReduceOp op);

/// "all_reduce 17 (1024 f32, sum)".
[[nodiscard]] std::string to_string(const CollectiveCall& call);

/// Of this process. Threads may ask at any time.
class Progress {
 public:
  /// The purpose of the next calls: "gradients, bucket 2".
  void set_place(std::string_view place);
  [[nodiscard]] std::string place();
  /// `group` is empty for the group of all.
  void begin(const CollectiveCall& call, std::string_view group);
  void end();
  /// At something that is no collective of a program: "at the end of its session".
  void set_stage(std::string_view stage);
  /// "in all_reduce 17 (1024 f32, sum; gradients, bucket 2)", "behind" it, or "before its first collective".
  [[nodiscard]] std::string text();

 private:
  std::mutex mutex_;
  std::string place_, stage_;
  /// place_ when the last call began.
  std::string place_of_call_;
  CollectiveCall call_;
  std::string group_;
  bool is_inside_ = false;
};

[[nodiscard]] Progress& progress();

}  // namespace mezzo::dist
