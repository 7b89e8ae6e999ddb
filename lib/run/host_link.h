// SPDX-License-Identifier: Apache-2.0
// Sends records between hosts that share no directory: one TCP connection from the first rank of each host to rank 0. Makes no MPI
// call, so that the heartbeat's thread may use it; nothing here blocks longer than the given patience. A process that is killed
// closes its connection: its end is known at once.
#pragma once
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/records.h"

namespace motley {

// An address of this host that other hosts may reach, IPv4 as mapped IPv6.
using HostAddress = sockaddr_in6;

// One connection. A frame: a head with the job's token, then for each record its numbers and its texts at their actual length
// (about 150 bytes a record).
class HostLink {
 public:
  HostLink(int fd, std::uint64_t token) : fd_(fd), token_(token) {}
  ~HostLink() { close(); }
  HostLink(HostLink&& other) noexcept;
  HostLink& operator=(HostLink&& other) noexcept;
  // Sends what the connection accepts now. If a previous frame is still unsent, that one is finished first and this one is left
  // out: the next has newer records.
  void send(std::uint32_t host, std::span<const Record> records);
  // The records of all frames that have arrived completely. A frame without the token or malformed closes the connection; of who
  // has not sent the token nothing but one head is read.
  std::vector<Record> receive();
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close();
  std::int64_t heard_of() const { return host_; }  // the host in the other end's last frame; -1: no frame yet

 private:
  void flush();
  bool take_frame(std::vector<Record>& out);
  int fd_ = -1;
  std::uint64_t token_ = 0;
  std::int64_t host_ = -1;
  bool known_ = false;  // the token has come
  std::vector<std::byte> going_{}, come_{};
};

// The address at which rank 0 is reached.
class HostListener {
 public:
  HostListener();  // listens at a port that the system chooses; otherwise (no TCP here) there is no address
  ~HostListener();
  HostListener(const HostListener&) = delete;
  HostListener& operator=(const HostListener&) = delete;
  std::vector<HostAddress> addresses() const;  // of all interfaces, loopback last; at most 16
  // Waits until hosts 1 .. hosts - 1 have introduced themselves or the patience is over. By host; links of hosts that have not are
  // not open. At most 64 connections wait to introduce themselves, each for a second at most; the oldest goes first.
  std::vector<HostLink> accept(std::size_t hosts, std::uint64_t token, double patience_seconds);

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;  // in network byte order
};

// Connects to the first address that answers with the token; not open: none did.
HostLink reach(std::span<const HostAddress> addresses, std::uint32_t host, std::uint64_t token, double patience_seconds);

}  // namespace motley
