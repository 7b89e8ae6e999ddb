// SPDX-License-Identifier: Apache-2.0
// Messages over MPI: 64-bit counts, every code checked, nothing that blocks.
#include <motley/mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <utility>

#include "base/host.h"
#include "mesh/control.h"
#include "mesh/mpi_check.h"
#include "mesh/mpi_session.h"
#include "mesh/shared_memory.h"
#include "mesh/tickets.h"

namespace motley {

void mpi_check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0, kind = code;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  if (MPI_Error_class(code, &kind) != MPI_SUCCESS) kind = MPI_ERR_UNKNOWN;
  const std::string says = std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length));
  if (kind == MPI_ERR_TRUNCATE) throw InternalError("a message is longer than what was expected; " + says);
  throw DeviceError(says);
}

namespace {

// A longer message goes in parts of this size, so that over a slow link one sees that data moves.
constexpr std::size_t kPartBytes = std::size_t{16} << 20;

struct MpiOperation {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<MPI_Request> further{};  // of a long message's parts after the first
  std::size_t ended = 0;               // number of parts
  int peer = -1, tag = 0;
  bool receives = false;
  std::size_t bytes = 0;
  Awaited flag{};
};

// Where a rank runs: the machine (containers of one machine share its cores), the cores it may use, and shared memory with a token
// in it: a rank that reads the token there can map this rank's memory.
struct Seat {
  std::array<char, kHostNameSize> machine{};
  cpu_set_t cores{};
  SharedMemory::Name probe{};
  std::uint64_t token = 0;
};

bool maps(const Seat& seat) {
  try {
    std::uint64_t found = 0;
    std::memcpy(&found, PeerSharedMemory(seat.probe).bytes().data(), sizeof found);
    return found == seat.token;
  } catch (const DeviceError&) {
    return false;
  }
}

Seat my_seat() {
  Seat seat;
  machine_id().copy(seat.machine.data(), seat.machine.size() - 1);
  CPU_ZERO(&seat.cores);
  if (sched_getaffinity(0, sizeof seat.cores, &seat.cores) != 0) CPU_SET(0, &seat.cores);
  return seat;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() = default;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  void connect(MPI_Comm comm) {
    int begun = 0, level = MPI_THREAD_SINGLE;
    if (MPI_Initialized(&begun) != MPI_SUCCESS || begun == 0) throw UserError("MPI is not initialised; call MPI_Init_thread first");
    mpi_check(MPI_Query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_FUNNELED)
      throw UserError("MPI was initialised with MPI_THREAD_SINGLE; MPI_THREAD_FUNNELED at least is needed");
    mpi_check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
    duplicate(comm, data_);
    duplicate(comm, control_);
    void* limit = nullptr;
    int found = 0;
    mpi_check(MPI_Comm_get_attr(data_, MPI_TAG_UB, static_cast<void*>(&limit), &found), "MPI_Comm_get_attr");
    if (found != 0) last_tag_ = *static_cast<int*>(limit);
    find_neighbours();
  }

  ~MpiTransport() override {
    int finalized = 0;
    const bool over = MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
    // If messages are unfinished the job is failing: their communicators and their memory are kept.
    if (!over && !idle()) leak_kept();
    if (over || !idle() || std::uncaught_exceptions() > 0) return;
    for (MPI_Comm* comm : {&data_, &control_})
      if (MPI_Comm_free(comm) != MPI_SUCCESS) std::fputs("motley: MPI_Comm_free failed\n", stderr);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool takes_device_memory() const override { return takes_device_memory_; }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    return start(operation(to, tag, bytes.size()), [&](std::size_t at, std::size_t size, MPI_Request& request) {
      mpi_check(MPI_Isend_c(bytes.data() + at, count(size), MPI_BYTE, to, wire_tag(tag), comm(tag), &request), "MPI_Isend_c");
    });
  }

  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    MpiOperation op = operation(from, tag, bytes.size());
    op.receives = true;
    return start(std::move(op), [&](std::size_t at, std::size_t size, MPI_Request& request) {
      mpi_check(MPI_Irecv_c(bytes.data() + at, count(size), MPI_BYTE, from, wire_tag(tag), comm(tag), &request), "MPI_Irecv_c");
    });
  }

  bool test(Ticket ticket) override {
    MpiOperation& op = tickets_.at(ticket);
    if (op.flag.waits()) {
      if (!op.flag.there()) {
        if (messages_ > 0) go_on();
        return false;
      }
      bytes_received_ += op.flag.bytes;
      tickets_.remove(ticket);
      return true;
    }
    for (bool last = false; !last;) {
      last = op.ended == op.further.size();
      MPI_Request& request = op.ended == 0 ? op.request : op.further[op.ended - 1];
      int done = 0;
      MPI_Status status;
      // MPI_Test polls the network also for a finished request, MPI_Request_get_status only for an unfinished one (MPICH 4.0, over
      // TCP: one microsecond of nine). MPI_Wait on a finished request returns at once.
      const int failed = MPI_Request_get_status(request, &done, &status);
      if (failed == MPI_SUCCESS && done == 0) return false;
      const int code = MPI_Wait(&request, &status);
      const std::size_t begin = op.ended++ * kPartBytes, expected = std::min(kPartBytes, op.bytes - begin);
      const int peer = op.peer, tag = op.tag;
      const bool receives = op.receives;
      parts_++;
      if (last) tickets_.remove(ticket);  // a message of the wrong size has ended as well
      if (last && peer >= 0) messages_--;
      mpi_check(failed, "MPI_Request_get_status");
      mpi_check(code, "MPI_Wait");
      if (!receives) continue;
      MPI_Count got = 0;
      mpi_check(MPI_Get_count_c(&status, MPI_BYTE, &got), "MPI_Get_count_c");
      if (got != count(expected))
        throw InternalError("rank " + std::to_string(peer) + " sent " + std::to_string(got) + " bytes with tag " +
                            std::to_string(tag) + ", rank " + std::to_string(rank_) + " expected " + std::to_string(expected));
      if (tag >= 0) bytes_received_ += static_cast<std::int64_t>(got);
    }
    return true;
  }

  int peer(Ticket ticket) const override { return tickets_.at(ticket).peer; }
  bool idle() const override { return tickets_.empty(); }

  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return control::gather(*this, mine); }

  HeldBytes allocate(std::size_t bytes) override { return shared_.allocate(bytes); }
  std::vector<HeldBytes> share(const HeldBytes& mine) override { return shared_.share(*this, mine); }
  Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) override {
    MpiOperation op = operation(from, 0, 0);
    op.flag = {&flag, value, bytes};
    return tickets_.add(op);
  }

  void abort(const Error& error) noexcept override {
    std::fprintf(stderr, "[rank %d] %s\n", rank_, error.what());
    if (MPI_Abort(data_, static_cast<int>(error.code())) != MPI_SUCCESS) _exit(static_cast<int>(error.code()));
  }

 private:
  static MPI_Count count(std::size_t bytes) { return static_cast<MPI_Count>(bytes); }
  MPI_Comm comm(int tag) const { return tag < 0 ? control_ : data_; }
  static int wire_tag(int tag) { return tag < 0 ? -tag : tag; }

  // begin(position, size, request) starts one part. A part may have begun when another cannot: the ticket is there by then, so that
  // the memory is kept.
  template <class Begin>
  Ticket start(MpiOperation op, Begin&& begin) {
    const std::size_t bytes = op.bytes;
    const Ticket ticket = tickets_.add(std::move(op));
    messages_++;
    MpiOperation& its = tickets_.at(ticket);
    begin(0, std::min(bytes, kPartBytes), its.request);
    for (std::size_t at = kPartBytes; at < bytes; at += kPartBytes)
      begin(at, std::min(bytes - at, kPartBytes), its.further.emplace_back(MPI_REQUEST_NULL));
    return ticket;
  }

  MpiOperation operation(int peer, int tag, std::size_t bytes) const {
    check(peer >= 0 && peer < size_ && peer != rank_, "a message goes to another rank of the transport");
    check(tag <= last_tag_, "a tag is at most MPI's greatest");
    return {.peer = peer, .tag = tag, .bytes = bytes};
  }

  // MPI moves messages only inside its calls, and a rank that waits for a flag makes none, so progress is made here.
  void go_on() {
    int found = 0;
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }

  void duplicate(MPI_Comm from, MPI_Comm& to) {
    MpiOperation op;
    mpi_check(MPI_Comm_idup(from, &to, &op.request), "MPI_Comm_idup");
    const Ticket ticket = tickets_.add(op);
    wait(*this, std::span(&ticket, 1), "MPI_Comm_idup");
    mpi_check(MPI_Comm_set_errhandler(to, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  void find_neighbours() {
    Seat mine = my_seat();
    const SharedMemory probe(sizeof mine.token);
    mine.probe = probe.name();
    std::random_device random;
    mine.token = (std::uint64_t{random()} << 32U) | random();
    std::memcpy(probe.bytes().data(), &mine.token, sizeof mine.token);
    std::vector<Seat> seats;
    for (const auto& bytes : control::gather(*this, std::as_bytes(std::span(&mine, 1))))
      std::memcpy(&seats.emplace_back(), bytes.data(), sizeof(Seat));
    find_crowd(seats);
    find_hosts(seats);  // a rank leaves this call when all have read, so the probe exists until then
  }

  // Crowded: the ranks of this machine that may run on one of this rank's cores outnumber the cores that they have together.
  void find_crowd(const std::vector<Seat>& seats) {
    const Seat& mine = seats[static_cast<std::size_t>(rank_)];
    cpu_set_t united;
    CPU_ZERO(&united);
    int sharers = 0;
    for (const Seat& its : seats) {
      cpu_set_t both;
      CPU_AND(&both, &mine.cores, &its.cores);
      if (its.machine != mine.machine || CPU_COUNT(&both) == 0) continue;
      CPU_OR(&united, &united, &its.cores);
      sharers++;
    }
    crowded_ = sharers > CPU_COUNT(&united);
  }

  // Either all ranks of a machine see each other's memory, or none do.
  void find_hosts(const std::vector<Seat>& seats) {
    std::vector<std::byte> seen;
    for (std::size_t r = 0; r < seats.size(); r++)
      seen.push_back(static_cast<std::byte>(static_cast<int>(r) == rank_ ||
                                            seats[r].machine != seats[static_cast<std::size_t>(rank_)].machine || maps(seats[r])));
    const auto all = control::gather(*this, seen);
    for (std::size_t r = 0; r < seats.size(); r++) {
      std::size_t first = r;
      bool whole = true;
      for (std::size_t q = 0; q < seats.size(); q++) {
        if (seats[q].machine != seats[r].machine) continue;
        first = std::min(first, q);
        whole = whole && std::find(all[q].begin(), all[q].end(), std::byte{0}) == all[q].end();
      }
      hosts_.push_back(static_cast<int>(whole ? first : r));
    }
  }

  MPI_Comm data_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, last_tag_ = 32767;  // MPI's guaranteed minimum
  Tickets<MpiOperation> tickets_;
  int messages_ = 0;  // number of operations that are messages
  SharedMemories shared_;
  const bool takes_device_memory_ = mpi_takes_device_memory();
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(MPI_Comm comm) {
  auto transport = std::make_unique<MpiTransport>();
  try {
    transport->connect(comm);
  } catch (...) {
    // MPI may still write into the members, and into the memory of unfinished messages.
    if (!transport->idle()) static_cast<void>(transport.release());
    throw;
  }
  return transport;
}

}  // namespace motley
