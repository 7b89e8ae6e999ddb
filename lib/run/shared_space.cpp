// SPDX-License-Identifier: Apache-2.0
#include "run/shared_space.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/units.h"

namespace motley {

namespace {

// Of MPICH and UCX per rank while they start (MPICH 4.0.2, UCX 1.13.1): 4.2 MiB measured (8 MiB is too little for two ranks, 10 MiB
// enough); of files 5 are sometimes too few for two ranks, 6 enough.
constexpr double kBytesPerRank = 5.0 * 1024 * 1024, kFilesPerRank = 4;

}  // namespace

SharedSpace shared_space(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0 || access(path.c_str(), W_OK | X_OK) != 0) return {.error = std::strerror(errno)};
  const double block = static_cast<double>(info.f_frsize);
  SharedSpace space{.total_bytes = block * static_cast<double>(info.f_blocks),
                    .free_bytes = block * static_cast<double>(info.f_bavail)};
  if (info.f_files == 0) return space;
  space.total_files = static_cast<double>(info.f_files);
  space.free_files = static_cast<double>(info.f_favail);
  return space;
}

std::string shared_space_fault(const SharedSpace& space, int ranks, int begun) {
  if (!space.error.empty())
    return "/dev/shm: " + space.error + "; MPI connects the ranks of a host through it; mount a tmpfs there that can be written to";
  const double all = ranks, others = ranks - begun;
  if (space.total_bytes < all * kBytesPerRank || space.free_bytes < others * kBytesPerRank)
    return fmt::format(
        "/dev/shm has {}, {} free, {} ranks need {}; enlarge it (mount -o remount,size=64m /dev/shm, or docker run --shm-size=64m)",
        bytes_text(space.total_bytes), bytes_text(space.free_bytes), ranks, bytes_text(all * kBytesPerRank));
  if (space.total_files && (*space.total_files < all * kFilesPerRank || *space.free_files < others * kFilesPerRank))
    return fmt::format(
        "/dev/shm has room for {} more files, {} ranks need {}; enlarge it (mount -o remount,nr_inodes=4096 /dev/shm)",
        *space.free_files, ranks, all * kFilesPerRank);
  return "";
}

void require_shared_space() {
  const char* here = std::getenv("MPI_LOCALNRANKS");
  const int ranks = here == nullptr ? 0 : std::atoi(here);
  if (ranks < 2) return;
  if (const std::string fault = shared_space_fault(shared_space(), ranks, ranks - 1); !fault.empty()) throw DeviceError(fault);
}

}  // namespace motley
