// How the thread of MPI's calls waits, answers, and ends all processes when one of them is late or gone.
#include "mezzo/dist/mpi/world.h"

#include <sched.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <stop_token>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/dist/detail/progress.h"

namespace mezzo::dist {

namespace {

using std::chrono::milliseconds;

PeerProcess this_process() {
  PeerProcess process;
  process.id = getpid();
  // Containers of one machine number their processes apart.
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  char space[64] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0) machine += space;
  std::memcpy(process.machine, machine.data(), std::min(machine.size(), sizeof process.machine - 1));
  return process;
}

bool is_here(const PeerProcess& process) {
  static const PeerProcess mine = this_process();
  return mine.machine[0] != '\0' && std::strcmp(mine.machine, process.machine) == 0;
}

/// Whether a process of this machine has ended; quick.
bool is_gone(const PeerProcess& process) {
  return is_here(process) && kill(process.id, 0) != 0 && errno == ESRCH;
}

enum class ProcessState { unknown, runs, stopped, gone };
/// Of a process of this machine, read from /proc; unknown for others.
ProcessState state_of(const PeerProcess& process) {
  if (!is_here(process)) return ProcessState::unknown;
  std::ifstream file("/proc/" + std::to_string(process.id) + "/stat");
  std::string line;
  if (!file || !std::getline(file, line)) return ProcessState::gone;
  // "4711 (name) S ...", where a name may hold anything.
  const std::size_t behind_name = line.rfind(") ");
  const char state = behind_name == std::string::npos ? 'S' : line[behind_name + 2];
  if (state == 'Z' || state == 'X') return ProcessState::gone;
  return state == 'T' || state == 't' ? ProcessState::stopped : ProcessState::runs;
}

enum Kind : int { kWhereAreYou, kHere, kEnding };

/// How long MPI may take to begin, however short the timeout is.
constexpr milliseconds kStartTime{10'000};
/// How long a process may take to say where it is. Its thread answers while the program computes.
constexpr milliseconds kAnswerTime{2000};
/// How long a rank that ends all waits for a lower one that does so too.
constexpr milliseconds kGiveWay{500};
/// How often a process looks whether the other processes of its machine are still there. Open MPI's mpirun
/// ends all a second after one has died.
constexpr milliseconds kLook{50};
/// When a process ends by itself, if nobody has ended it.
constexpr milliseconds kLastResort{3000};

std::string seconds_text(std::chrono::steady_clock::duration time) {
  return number_text(std::chrono::duration<double>(time).count()) + " s";
}

/// In one piece, so that lines of several processes do not mix.
void write_line(const std::string& text) {
  const std::string line = text + "\n";
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

/// Waits for what comes in microseconds without giving up the processor for long, and then lets others have
/// it: a step's reductions wait for backward, which has the same processors.
void pause_after(std::chrono::steady_clock::duration waited) {
  using std::chrono::microseconds;
  if (waited < microseconds(200)) {
    sched_yield();
  } else if (waited < milliseconds(5)) {
    std::this_thread::sleep_for(microseconds(20));
  } else {
    std::this_thread::sleep_for(waited < milliseconds(100) ? microseconds(50) : microseconds(400));
  }
}

/// Some of many, for a line that is read.
std::string shown(const std::vector<std::string>& items) {
  return mezzo::detail::listed(items, 4, std::identity(), "; ");
}

/// The text about a process that does not answer.
const char* silence_of(ProcessState state) {
  if (state == ProcessState::stopped) return " is stopped";
  if (state == ProcessState::gone) return " is gone";
  if (state == ProcessState::runs) return " does not answer, though its process runs";
  return " does not answer: stopped or gone";
}

/// Ends the process with a line when the result lives longer than `limit`: for calls of MPI that wait for
/// other processes, and have no limit of their own.
std::jthread watchdog(milliseconds limit, const std::string& line) {
  return std::jthread([limit, line](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, stop, limit, [] { return false; });
    if (stop.stop_requested()) return;
    write_line(line);
    _exit(1);
  });
}

}  // namespace

MpiWorld& MpiWorld::open(const MezzoMpiFunctions& functions, milliseconds timeout) {
  auto& world = *new MpiWorld();  // never destroyed: threads may end all to the last moment
  world.functions_ = &functions;
  world.timeout_ = timeout;
  world.queue_ = make_ref<JobQueue>([&world] { world.poll(); });
  world.queue_->push([&world] { world.start(); })->wait();
  return world;
}

void MpiWorld::start() {
  thread_ = std::this_thread::get_id();
  const auto limit = std::max(timeout_, kStartTime);
  const char* error = nullptr;
  {
    const auto watch = watchdog(limit, "mezzo: MPI did not begin within " + seconds_text(limit) +
                                           ": another process is stopped, or did not start");
    error = functions_->start(&place_);
  }
  if (error != nullptr) throw StateError("dist.init", "MPI to begin", error, "");
  peers_.resize(static_cast<std::size_t>(place_.size));
  // All ranks are told of all processes.
  const PeerProcess mine = this_process();
  std::vector<PeerProcess> all(peers_.size());
  MezzoMpiRequest* request = nullptr;
  check(functions_->all_gather(place_.group, &mine, all.data(), sizeof mine, &request));
  wait(request);
  for (std::size_t r = 0; r < all.size(); ++r) peers_[r].process = all[r];
  is_open_ = true;
}

void MpiWorld::wait(MezzoMpiRequest* request) {
  const auto begin = Clock::now();
  auto deadline = begin + timeout_;
  auto last = begin;
  auto next_poll = begin + milliseconds(1);
  while (true) {
    int is_done = 0;
    check(functions_->test(request, &is_done));
    if (is_done != 0) return;
    const auto now = Clock::now();
    // The time in which this process itself was stopped, by a debugger or a batch system, does not count.
    if (now - last > std::chrono::seconds(1)) deadline += now - last;
    last = now;
    if (now >= next_poll) {
      poll();
      next_poll = now + milliseconds(1);
    }
    if (now > deadline) end_late();
    pause_after(now - begin);
  }
}

void MpiWorld::check(const char* error) {
  if (error == nullptr) return;
  end_here(std::string("MPI says '") + error +
           "'; another rank may make another call: set MEZZO_DIST_DEBUG=1 to see");
}

void MpiWorld::poll() {
  if (!is_open_) return;
  MezzoMpiMessage message;
  while (functions_->receive(place_.control, &message) != 0) handle(message);
  if (wants_end_) {
    std::string why;
    {
      const std::scoped_lock lock(mutex_);
      why = why_end_;
    }
    end_here(why);
  }
  if (ending_rank_ < 0) look_for_gone();
  if (ending_rank_ >= 0 && Clock::now() - ending_since_ > kLastResort) _exit(1);
}

void MpiWorld::handle(const MezzoMpiMessage& message) {
  Peer& peer = peers_[static_cast<std::size_t>(message.peer)];
  switch (message.kind) {
    case kWhereAreYou:
      peer.is_late_too = true;
      tell(message.peer, kHere, progress().text());
      break;
    case kHere:
      peer.has_answered = true;
      peer.text.assign(message.text, static_cast<std::size_t>(message.bytes));
      break;
    case kEnding:
      if (ending_rank_ < 0) ending_since_ = Clock::now();
      if (ending_rank_ < 0 || message.peer < ending_rank_) ending_rank_ = message.peer;
      break;
    default:
      break;
  }
}

void MpiWorld::tell(int peer, int kind, std::string_view text) {
  MezzoMpiMessage message{};
  message.peer = peer;
  message.kind = kind;
  message.bytes = static_cast<int>(std::min(text.size(), sizeof message.text));
  std::memcpy(message.text, text.data(), static_cast<std::size_t>(message.bytes));
  functions_->send(place_.control, &message);
}

void MpiWorld::tell_all(int kind, std::string_view text) {
  for (int r = 0; r < place_.size; ++r)
    if (r != place_.rank) tell(r, kind, text);
}

template <class F>
void MpiWorld::poll_for(milliseconds time, F is_enough) {
  const auto end = Clock::now() + time;
  while (!is_enough() && Clock::now() < end) {
    MezzoMpiMessage message;
    while (functions_->receive(place_.control, &message) != 0) handle(message);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

bool MpiWorld::lower_rank_ends() const noexcept { return ending_rank_ >= 0 && ending_rank_ < place_.rank; }

std::string MpiWorld::who_is_missing() const {
  std::string hint;
  const std::string here = progress().text();
  std::vector<std::string> silent, elsewhere;
  for (int r = 0; r < place_.size; ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (r == place_.rank) continue;
    const std::string name = "rank " + std::to_string(r);
    if (!peer.has_answered) {
      silent.push_back(name + silence_of(state_of(peer.process)));
    } else if (peer.text != here) {
      elsewhere.push_back(name + " is " + peer.text);
      if (here.starts_with("in ") && peer.text.starts_with("in "))
        hint = "; MEZZO_DIST_DEBUG=1 names the first call in which ranks differ";
    }
  }
  if (silent.empty() && elsewhere.empty()) return "all ranks are there: the network or MPI does not go on";
  if (silent.empty()) return shown(elsewhere) + hint;
  return shown(silent) + (elsewhere.empty() ? "" : "; " + shown(elsewhere));
}

std::string MpiWorld::line_of(const std::string& why) const {
  return "mezzo: rank " + std::to_string(place_.rank) + " of " + std::to_string(place_.size) + ", " +
         progress().text() + ": " + why + "; all processes are ended";
}

void MpiWorld::give_way() {
  if (place_.rank == 0) return;
  poll_for(kGiveWay, [this] { return lower_rank_ends(); });
  if (lower_rank_ends()) poll_for(kAnswerTime, [] { return false; });
}

void MpiWorld::end_late() {
  for (Peer& peer : peers_) peer.has_answered = false;
  tell_all(kWhereAreYou, "");
  poll_for(kAnswerTime, [this] {
    return std::all_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
      return peer.has_answered || &peer == &peers_[static_cast<std::size_t>(place_.rank)];
    });
  });
  const std::string who = who_is_missing();
  // A lower rank that is late too speaks for all.
  const auto end = peers_.begin() + place_.rank;
  const auto lower = std::find_if(peers_.begin(), end, [](const Peer& peer) { return peer.is_late_too; });
  if (lower != end || lower_rank_ends()) poll_for(kAnswerTime, [] { return false; });
  end_here("not completed within " + seconds_text(timeout_) + ": " + who);
}

void MpiWorld::end_here(const std::string& why) {
  const std::string line = line_of(why);
  tell_all(kEnding, line);
  give_way();
  leave(line);
}

void MpiWorld::look_for_gone() {
  // Who is at the end of its session may be gone before this one has seen that all are there.
  if (is_closing_ || Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLook;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (is_gone(peers_[r].process)) end_here("rank " + std::to_string(r) + " is gone");
  }
}

void MpiWorld::leave(const std::string& line) {
  write_line(line);
  std::thread([] {
    std::this_thread::sleep_for(kLastResort);
    _exit(1);
  }).detach();
  functions_->abort(1);
  _exit(1);
}

void MpiWorld::end_all(const std::string& why) {
  if (std::this_thread::get_id() == thread_) end_here(why);
  {
    const std::scoped_lock lock(mutex_);
    if (!wants_end_) why_end_ = why;
    wants_end_ = true;
  }
  std::this_thread::sleep_for(2 * kLastResort);
  write_line("mezzo: rank " + std::to_string(place_.rank) + ": " + why);
  _exit(1);
}

void MpiWorld::close() {
  queue_
      ->push([this] {
        is_closing_ = true;
        progress().set_stage("at the end of its session");
        MezzoMpiRequest* request = nullptr;
        check(functions_->barrier(place_.control, &request));
        wait(request);
        is_open_ = false;
        {
          const auto watch = watchdog(timeout_, line_of("MPI did not end within " + seconds_text(timeout_) +
                                                        ": another process is stopped"));
          functions_->finish();
        }
        progress().set_stage("");
      })
      ->wait();
  queue_ = nullptr;
}

}  // namespace mezzo::dist
