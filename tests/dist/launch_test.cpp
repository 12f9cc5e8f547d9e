// Who has started a process, by the variables of each launcher and by some that belong to none.
#include "mezzo/dist/detail/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/dist/init.h"

namespace mezzo {
namespace {

using dist::Launch;
using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
  return dist::find_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void expect_launch(const Variables& variables, Launch::By by, int rank, int size) {
  const Launch launch = launch_of(variables);
  EXPECT_EQ(launch.by, by) << variables.begin()->first;
  EXPECT_EQ(launch.rank, rank) << variables.begin()->first;
  EXPECT_EQ(launch.size, size) << variables.begin()->first;
}

TEST(Launch, NobodyWithoutVariables) {
  expect_launch({{"PATH", "/bin"}}, Launch::By::nobody, 0, 1);
  expect_launch({{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}}, Launch::By::nobody, 0, 1);
}

TEST(Launch, EachLauncher) {
  const auto mpi = Launch::By::mpi;
  expect_launch({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, mpi, 2, 4);
  expect_launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, mpi, 1, 3);
  expect_launch({{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}}, mpi, 5, 8);
  expect_launch({{"PMIX_RANK", "5"}}, mpi, 5, 0);
  expect_launch({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}}, mpi, 3, 4);
}

TEST(Launch, ABatchScriptIsOneProcess) {
  expect_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}, Launch::By::nobody, 0,
                1);
}

TEST(Launch, OneProcessIsAlone) {
  expect_launch({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, Launch::By::nobody, 0, 1);
  expect_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}}, Launch::By::nobody, 0, 1);
}

TEST(Launch, NumbersOfAScript) {
  const Variables variables{{"RANK", "9"},       {"WORLD_SIZE", "16"},      {"MASTER_ADDR", "node0"},
                            {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "8"}, {"MASTER_PORT", "29500"}};
  expect_launch(variables, Launch::By::environment, 9, 16);
  EXPECT_EQ(launch_of(variables).local_rank, 1);
  EXPECT_EQ(launch_of(variables).local_size, 8);
  expect_launch({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, Launch::By::nobody, 0, 1);  // by whom would they meet?
}

TEST(Launch, WhoStartedAsManyCounts) {
  Variables variables{{"RANK", "1"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "a"},
                      {"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"}};
  expect_launch(variables, Launch::By::mpi, 1, 2);
  // Two processes of mpirun, one per machine, that each started eight.
  variables["RANK"] = "11";
  variables["WORLD_SIZE"] = "16";
  expect_launch(variables, Launch::By::environment, 11, 16);
}

TEST(Launch, RefusesWhatIsNoNumber) {
  EXPECT_THROW(launch_of({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), ValueError);
  EXPECT_THROW(launch_of({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), ValueError);
  EXPECT_THROW(launch_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), ValueError);
  EXPECT_THROW(launch_of({{"OMPI_COMM_WORLD_RANK", "1 "}, {"OMPI_COMM_WORLD_SIZE", "2"}}), ValueError);
  try {
    launch_of({{"RANK", "one"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}});
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_STREQ(
        error.what(),
        "dist.init: expected a number in RANK, got 'one'; unset it, or start the program by mpirun or "
        "srun");
  }
}

TEST(Launch, WarnsOfProcessesThatLeaveMostProcessorsIdle) {
  EXPECT_EQ(
      dist::binding_warning(1, 16, 2),
      "dist.init: expected processes that share this machine's 16 processors, got 2 that are bound to 1 "
      "each; start them by mpirun --bind-to none, or by --map-by slot:PE=8");
  EXPECT_NE(dist::binding_warning(1, 4, 2), "");
  EXPECT_EQ(dist::binding_warning(1, 2, 2), "");    // all are used
  EXPECT_EQ(dist::binding_warning(3, 8, 2), "");    // most are
  EXPECT_EQ(dist::binding_warning(16, 16, 2), "");  // not bound
  EXPECT_EQ(dist::binding_warning(1, 4, 8), "");
}

TEST(Init, AloneIsAGroupOfOne) {
  EXPECT_FALSE(dist::is_initialized());
  EXPECT_EQ(dist::world_size(), 1);
  {
    const auto session = dist::init();
    EXPECT_TRUE(dist::is_initialized());
    { const auto inner = dist::init(); }
    EXPECT_TRUE(dist::is_initialized());
    EXPECT_EQ(dist::rank(), 0);
    EXPECT_EQ(dist::local_rank(), 0);
    EXPECT_EQ(dist::local_world_size(), 1);
    dist::barrier();
  }
  EXPECT_FALSE(dist::is_initialized());
}

TEST(Init, RefusesTimeoutsThatAreNone) {
  EXPECT_THROW(static_cast<void>(dist::init({.timeout = std::chrono::seconds(0)})), ValueError);
  for (const char* const text : {"0", "-1", "soon", "nan", "inf"}) {
    setenv("MEZZO_DIST_TIMEOUT", text, 1);
    EXPECT_THROW(static_cast<void>(dist::init()), ValueError) << text;
  }
  setenv("MEZZO_DIST_TIMEOUT", "2.5", 1);
  EXPECT_NO_THROW(static_cast<void>(dist::init()));
  EXPECT_FALSE(dist::is_initialized());
}

}  // namespace
}  // namespace mezzo
