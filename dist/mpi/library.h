// Opens libmezzo_mpi.so, the part of mezzo that is linked with MPI.
#pragma once

#include <string>

#include "mezzo/dist/mpi/functions.h"

namespace mezzo::dist {

/// Its table, or null and the reason in `*why`. Looked for: the file that MEZZO_MPI_MODULE names, else beside
/// libmezzo and the program, in the folder above and in lib/ there, then where mezzo was installed.
[[nodiscard]] const MezzoMpiFunctions* open_mpi(std::string* why);

}  // namespace mezzo::dist
