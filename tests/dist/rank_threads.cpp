// A board on which the threads of a group publish their memory, and the transport over it.
#include "dist/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <thread>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"

namespace mezzo::test {

namespace {

using dist::CommunicationError;
using dist::ReduceOp;
using dist::Transport;

/// Where the ranks of one group meet.
struct Board {
  explicit Board(int ranks, std::shared_ptr<std::atomic<bool>> failure, Link pace)
      : size(ranks), failed(std::move(failure)), link(pace), memory(static_cast<std::size_t>(ranks)) {}

  int size;
  std::shared_ptr<std::atomic<bool>> failed;  ///< of all groups
  Link link;
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  std::uint64_t round = 0;
  std::vector<const void*> memory;
  std::map<std::vector<int>, std::shared_ptr<Board>> parts;
  Counts counts;

  void meet() {
    std::unique_lock lock(mutex);
    const std::uint64_t mine = round;
    if (++waiting == size) {
      waiting = 0;
      ++round;
      changed.notify_all();
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (round == mine) {
      changed.wait_for(lock, std::chrono::milliseconds(5));
      if (round != mine) break;
      if (*failed) throw CommunicationError("test", "all ranks", "one that has thrown", "see its error");
      if (std::chrono::steady_clock::now() > deadline)
        throw CommunicationError("test", "all ranks within 60 s", "one that has not come", "");
    }
  }
};

template <class T>
T combined(ReduceOp op, T a, T b) {
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  return static_cast<T>(a + b);
}

/// Elements [begin, begin + count) of all ranks' memory as one.
template <class T>
void reduce_into(const Board& board, T* out, std::int64_t begin, std::int64_t count, ReduceOp op) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value = static_cast<const T*>(board.memory[0])[begin + i];
    for (int r = 1; r < board.size; ++r)
      value =
          combined(op, value, static_cast<const T*>(board.memory[static_cast<std::size_t>(r)])[begin + i]);
    out[i] = value;
  }
}

void reduce_into(const Board& board, void* out, std::int64_t begin, std::int64_t count, DType dtype,
                 ReduceOp op) {
  switch (dtype) {
    case DType::f32:
      return reduce_into(board, static_cast<float*>(out), begin, count, op);
    case DType::f64:
      return reduce_into(board, static_cast<double*>(out), begin, count, op);
    case DType::i32:
      return reduce_into(board, static_cast<std::int32_t*>(out), begin, count, op);
    case DType::i64:
      return reduce_into(board, static_cast<std::int64_t*>(out), begin, count, op);
    case DType::u8:
      return reduce_into(board, static_cast<std::uint8_t*>(out), begin, count, op);
    default:
      throw CommunicationError("test", "a dtype that a transport reduces", to_string(dtype), "");
  }
}

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(int rank, std::shared_ptr<Board> board)
      : Transport(rank, board->size, Device::cpu()), board_(std::move(board)) {}

  void broadcast(void* data, std::size_t bytes, int root) override {
    count(&Counts::broadcasts, bytes);
    publish(data);
    if (rank() != root) std::memcpy(data, of(root), bytes);
    board_->meet();
  }
  void all_reduce(void* data, std::int64_t n, DType dtype, ReduceOp op) override {
    const auto bytes = static_cast<std::size_t>(n * size_of(dtype));
    count(&Counts::all_reduces, 2 * ring(bytes));
    publish(data);
    std::vector<std::byte> result(bytes);
    reduce_into(*board_, result.data(), 0, n, dtype, op);
    board_->meet();
    std::memcpy(data, result.data(), bytes);
  }
  void reduce_scatter(void* whole, void* part, std::int64_t n, DType dtype, ReduceOp op) override {
    const auto bytes = static_cast<std::size_t>(n * size_of(dtype));
    count(&Counts::reduce_scatters, ring(bytes * static_cast<std::size_t>(size())));
    publish(whole);
    std::vector<std::byte> result(bytes);
    reduce_into(*board_, result.data(), rank() * n, n, dtype, op);
    board_->meet();
    std::memcpy(part, result.data(), bytes);
  }
  void all_gather(const void* part, void* whole, std::size_t bytes) override {
    count(&Counts::all_gathers, bytes * static_cast<std::size_t>(size() - 1));
    publish(part);
    for (int r = 0; r < size(); ++r) std::memmove(place(whole, r, bytes), of(r), bytes);
    board_->meet();
  }
  void all_to_all(const void* from, void* to, std::size_t bytes) override {
    count(&Counts::all_to_alls, bytes * static_cast<std::size_t>(size() - 1));
    publish(from);
    for (int r = 0; r < size(); ++r)
      std::memcpy(place(to, r, bytes),
                  static_cast<const std::byte*>(of(r)) + static_cast<std::size_t>(rank()) * bytes, bytes);
    board_->meet();
  }
  void barrier() override { board_->meet(); }
  Ref<Transport> split(std::span<const int> ranks) override {
    const std::vector<int> list(ranks.begin(), ranks.end());
    std::shared_ptr<Board> part;
    {
      const std::scoped_lock lock(board_->mutex);
      auto& known = board_->parts[list];
      if (known == nullptr)
        known = std::make_shared<Board>(static_cast<int>(list.size()), board_->failed, board_->link);
      part = known;
    }
    board_->meet();
    const auto found = std::find(list.begin(), list.end(), rank());
    if (found == list.end()) return {};
    return make_ref<ThreadTransport>(static_cast<int>(found - list.begin()), part);
  }

 private:
  [[nodiscard]] std::size_t ring(std::size_t bytes) const {
    return bytes * static_cast<std::size_t>(size() - 1) / static_cast<std::size_t>(size());
  }
  [[nodiscard]] const void* of(int r) const { return board_->memory[static_cast<std::size_t>(r)]; }
  [[nodiscard]] static std::byte* place(void* whole, int r, std::size_t bytes) {
    return static_cast<std::byte*>(whole) + static_cast<std::size_t>(r) * bytes;
  }
  void count(std::uint64_t Counts::*kind, std::size_t bytes) {
    if (rank() == 0) {
      ++(board_->counts.*kind);
      board_->counts.bytes += bytes;
    }
    const double seconds =
        board_->link.seconds_per_call + board_->link.seconds_per_byte * static_cast<double>(bytes);
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  void publish(const void* memory) {
    {
      const std::scoped_lock lock(board_->mutex);
      board_->memory[static_cast<std::size_t>(rank())] = memory;
    }
    board_->meet();
  }

  std::shared_ptr<Board> board_;
};

}  // namespace

Counts run_ranks(int size, const std::function<void(const dist::Group&)>& f, const Link& link,
                 const dist::MakeDeviceTransport& make_device) {
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  const auto board = std::make_shared<Board>(size, failed, link);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        const dist::Group group(make_ref<dist::GroupState>(r, size, make_ref<ThreadTransport>(r, board),
                                                           make_ref<dist::JobQueue>(), make_device));
        f(group);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
        *failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr late;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const CommunicationError&) {
      if (!late) late = error;
    } catch (...) {
      throw;
    }
  }
  if (late) std::rethrow_exception(late);
  return board->counts;
}

}  // namespace mezzo::test
