// This process's session: how it begins, and the ways in which it may end.
#include "mezzo/dist/init.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/dist/detail/checked_transport.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/detail/launch.h"
#include "mezzo/dist/mpi/functions.h"
#include "mezzo/dist/mpi/transport.h"
#include "mezzo/dist/mpi/world.h"
#ifdef MEZZO_HAVE_NCCL
#include "mezzo/dist/nccl/transport.h"
#endif

namespace mezzo::dist {

namespace {

// --- libmezzo_mpi.so

constexpr const char* kMpiModule = "libmezzo_mpi.so";

void add_folders_of(const std::string& program, std::vector<std::string>* files) {
  const std::size_t slash = program.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : program.substr(0, slash + 1);
  for (const char* const place : {"", "../", "../lib/"}) files->push_back(folder + place + kMpiModule);
}

/// Where it may be, best first.
std::vector<std::string> mpi_modules() {
  std::vector<std::string> files;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&mpi_modules), &info) != 0 && info.dli_fname != nullptr)
    add_folders_of(info.dli_fname, &files);
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length > 0) add_folders_of(std::string(program, static_cast<std::size_t>(length)), &files);
#ifdef MEZZO_MPI_INSTALLED
  files.emplace_back(MEZZO_MPI_INSTALLED);
#endif
  return files;
}

const MezzoMpiFunctions* open_mpi_module(const std::string& file, std::string* why) {
  // Its names become global, as parts of an MPI that are opened later need them.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    *why = error == nullptr ? file + " cannot be opened" : error;
    return nullptr;
  }
  void* const function = dlsym(handle, "mezzo_mpi_functions");
  const MezzoMpiFunctions* const table =
      function == nullptr ? nullptr : reinterpret_cast<MezzoMpiFunctionsOf>(function)();
  if (table == nullptr || table->version != MEZZO_MPI_VERSION) {
    *why = file + " is of another version of mezzo";
    return nullptr;
  }
  return table;
}

/// The table of libmezzo_mpi.so, the part of mezzo that is linked with MPI, or null and the reason in `*why`.
/// Looked for: the file that MEZZO_MPI_MODULE names, else beside libmezzo and the program, in the folder
/// above and in lib/ there, then where mezzo was installed.
const MezzoMpiFunctions* open_mpi(std::string* why) {
  const char* const named = std::getenv("MEZZO_MPI_MODULE");
  if (named != nullptr && *named != '\0') return open_mpi_module(named, why);
#ifdef MEZZO_HAVE_MPI
  *why = "no libmezzo_mpi.so beside libmezzo or the program";
#else
  *why = "mezzo was built without MPI";
#endif
  for (const std::string& file : mpi_modules()) {
    if (access(file.c_str(), F_OK) == 0) return open_mpi_module(file, why);
  }
  return nullptr;
}

// --- the session

/// The open session's.
struct Place {
  Group world;
  int local_rank = 0, local_size = 1;
  bool is_open = false;
  InitOptions options;
  MpiWorld* mpi = nullptr;  ///< null without MPI
  pid_t process = 0;        ///< children of fork() are no part of it
  std::terminate_handler former_terminate = nullptr;
  bool has_exit_handler = false;
  std::atomic<bool> ends_by_exception{false};
};

Place& place() {
  static auto& place = *new Place();  // never destroyed: threads may ask to the end
  return place;
}

/// Whether others depend on how this process ends.
bool has_others() { return place().is_open && place().world.size() > 1 && getpid() == place().process; }

constexpr const char* kByException = "an exception ended its session";

InitOptions with_environment(InitOptions options) {
  if (const char* const text = std::getenv("MEZZO_DIST_TIMEOUT"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    if (*end != '\0' || !std::isfinite(seconds)) {
      throw ValueError("dist.init", "seconds in MEZZO_DIST_TIMEOUT", std::string("'") + text + "'",
                       "give a number");
    }
    options.timeout = std::chrono::milliseconds(std::llround(std::fmin(seconds, 1e9) * 1000));
  }
  if (options.timeout.count() <= 0) {
    throw ValueError("dist.init", "a timeout above 0", std::to_string(options.timeout.count()) + " ms",
                     "give each collective some seconds");
  }
  // Far from the end of the clock's range.
  options.timeout = std::min<std::chrono::milliseconds>(options.timeout, std::chrono::seconds(1'000'000'000));
  const char* const debug = std::getenv("MEZZO_DIST_DEBUG");
  if (debug != nullptr && *debug != '\0' && std::string_view(debug) != "0") options.debug = true;
  return options;
}

/// Throws on all ranks; rank 0 says what to do. Other ranks wait before they throw, as a launcher ends all
/// processes when one has ended.
[[noreturn]] void refuse(const Launch& launch, const std::string& expected, const std::string& got,
                         const std::string& fix) {
  if (launch.rank == 0) throw StateError("dist.init", expected, got, fix);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  throw StateError("dist.init", "to begin with the others", "what rank 0 says", "");
}

std::string started_text(const Launch& launch) {
  const std::string many = launch.size == 0 ? "several" : std::to_string(launch.size);
  return "one of " + many + " processes of mpirun or srun (" + launch.variable + " is set)";
}

/// The text of the exception that is being handled.
std::string exception_text() {
  const std::exception_ptr error = std::current_exception();
  if (!error) return "std::terminate was called";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

[[noreturn]] void on_terminate() {
  if (has_others()) abort("ended by " + exception_text());
  if (place().former_terminate != nullptr) place().former_terminate();
  std::abort();
}

void close_session() {
  Place& here = place();
  if (has_others()) {
    here.world = Group();
    if (here.mpi != nullptr) std::exchange(here.mpi, nullptr)->close();
    if (std::get_terminate() == on_terminate) std::set_terminate(here.former_terminate);
  }
  here.world = Group();
  here.local_rank = 0;
  here.local_size = 1;
  here.is_open = false;
}

void on_exit_of_process(int status) {
  if (!has_others()) return;
  if (place().ends_by_exception) abort(kByException);
  if (status != 0) abort("the program ended with status " + std::to_string(status));
  close_session();
}

void watch_ends() {
  Place& here = place();
  here.process = getpid();
  here.former_terminate = std::set_terminate(on_terminate);
  if (std::exchange(here.has_exit_handler, true)) return;
#ifdef __GLIBC__
  static_cast<void>(on_exit([](int status, void*) { on_exit_of_process(status); }, nullptr));
#else
  static_cast<void>(std::atexit([] { on_exit_of_process(0); }));
#endif
}

MakeDeviceTransport nccl_with_host() {
#ifdef MEZZO_HAVE_NCCL
  return nccl_over_host({.timeout = place().options.timeout});
#else
  return {};
#endif
}

/// Of Open MPI, whose mpirun or daemon on this machine is the parent, which is not bound.
void warn_of_binding(const Launch& launch) {
  if (rank() != 0 || !launch.variable.starts_with("OMPI_")) return;
  cpu_set_t mine, launchers;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
  if (sched_getaffinity(getppid(), sizeof launchers, &launchers) != 0) return;
  const std::string text = binding_warning(CPU_COUNT(&mine), CPU_COUNT(&launchers), local_world_size());
  if (!text.empty()) warn_once("processes_bound", text);
}

void open_mpi_session(const Launch& launch) {
  Place& here = place();
  std::string why;
  const MezzoMpiFunctions* const functions = open_mpi(&why);
  if (functions == nullptr) {
    refuse(launch, "a build of mezzo with MPI, as this is " + started_text(launch), why,
           "install an MPI (libopenmpi-dev) and build again with -DMEZZO_MPI=ON, or start one process");
  }
  MpiWorld& mpi = MpiWorld::open(*functions, here.options.timeout);
  const MezzoMpiWorld& found = mpi.place();
  const bool fits = found.rank == launch.rank && (launch.size == 0 || found.size == launch.size);
  if (!fits) {
    if (found.size == 1) mpi.close();
    refuse(launch, "the MPI of the launcher, as this is " + started_text(launch),
           "an MPI that finds " + std::to_string(found.size) + " process" + (found.size == 1 ? "" : "es"),
           "start it by the mpirun of the MPI that mezzo was built with, or by srun --mpi=pmix");
  }
  Ref<Transport> host = make_ref<MpiTransport>(mpi);
  if (here.options.debug) {
    host = make_ref<CheckedTransport>(std::move(host),
                                      [&mpi](const std::string& message) { mpi.end_all(message); });
  }
  here.mpi = &mpi;
  here.local_rank = found.local_rank;
  here.local_size = found.local_size;
  here.world =
      Group(make_ref<GroupState>(found.rank, found.size, std::move(host), mpi.queue(), nccl_with_host()));
  warn_of_binding(launch);
}

void open_environment_session(const Launch& launch) {
#ifdef MEZZO_HAVE_NCCL
  Place& here = place();
  here.local_rank = launch.local_rank;
  here.local_size = launch.local_size;
  here.world = Group(make_ref<GroupState>(launch.rank, launch.size, nullptr, nullptr,
                                          nccl_from_environment({.timeout = place().options.timeout}),
                                          Device::cuda(launch.local_rank)));
#else
  refuse(launch, "a build of mezzo with NCCL, as RANK, WORLD_SIZE and MASTER_ADDR are set", "one without",
         "start the program by mpirun or srun, or unset RANK");
#endif
}

}  // namespace

Session init(const InitOptions& options) {
  Session session;
  session.exceptions_ = std::uncaught_exceptions();
  Place& here = place();
  if (here.is_open) {
    session.is_owner_ = false;
    return session;
  }
  here.options = with_environment(options);
  const Launch launch = find_launch();
  if (launch.by == Launch::By::mpi) open_mpi_session(launch);
  if (launch.by == Launch::By::environment) open_environment_session(launch);
  here.is_open = true;
  if (here.world.size() > 1) watch_ends();
  return session;
}

void ensure_initialized() {
  if (place().is_open) return;
  Session session = init();
  session.is_owner_ = false;  // it ends with the process
}

Session::Session(Session&& other) noexcept
    : is_owner_(std::exchange(other.is_owner_, false)), exceptions_(other.exceptions_) {}

Session::~Session() {
  if (!is_owner_) return;
  if (std::uncaught_exceptions() <= exceptions_ || !has_others()) {
    close_session();
    return;
  }
  // The program may catch it and say what it was. When it ends then, or takes too long, all processes end.
  place().ends_by_exception = true;
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    abort(kByException);
  }).detach();
}

Group world() { return place().world; }
bool is_initialized() noexcept { return place().is_open; }
int rank() { return place().world.rank(); }
int world_size() { return place().world.size(); }
int local_rank() { return place().local_rank; }
int local_world_size() { return place().local_size; }

void abort(const std::string& reason) {
  if (place().mpi != nullptr) place().mpi->end_all(reason);
  std::string line = "mezzo: ";
  if (world_size() > 1) line += "rank " + std::to_string(rank()) + ": ";
  line += reason + "\n";
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
  _exit(1);
}

}  // namespace mezzo::dist
