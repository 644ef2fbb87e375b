/* The network interface of the nanoPU, for programs in C.
 *
 * Compile with -ffixed-x30 -ffixed-x31, so that the compiler leaves netRX and netTX alone. CSR
 * numbers are those of the prototype's public sources; docs/reference/nanopu.md has them all. */
#ifndef NANOPU_H
#define NANOPU_H

#include <stdint.h>

#define CSR_LMSGSRDY 0x052
#define CSR_LCURCONTEXT 0x053
#define CSR_LNICCMD 0x054
#define CSR_LCURPRIORITY 0x055
#define CSR_LNICUCMD 0x056
#define CSR_MIP 0x344
#define CSR_TIME 0xc01
#define TIMER_INTERRUPT (1 << 7) /* of mip */
#define MTIMECMP 0x02004000ul    /* of the first core */

#define CSR_TEXT_(number) #number
#define CSR_TEXT(number) CSR_TEXT_(number)

#define csr_read(number)                                                       \
  ({                                                                           \
    uint64_t value_;                                                           \
    __asm__ volatile("csrr %0, " CSR_TEXT(number) : "=r"(value_)::"memory");   \
    value_;                                                                    \
  })

#define csr_write(number, value)                                               \
  __asm__ volatile("csrw " CSR_TEXT(number) ", %0" ::"rK"(value) : "memory")

/* Binds this program to a context (the port of a message) with a priority; 0 is the highest. */
static inline void net_bind(uint16_t context, uint8_t priority) {
  csr_write(CSR_LCURCONTEXT, context);
  csr_write(CSR_LCURPRIORITY, priority);
  csr_write(CSR_LNICCMD, 1);
}

/* Waits until a message is there. */
static inline void net_wait(void) {
  while (csr_read(CSR_LMSGSRDY) == 0)
    csr_write(CSR_LNICUCMD, 2); /* lidle */
}

/* Messages that are there. */
static inline uint64_t net_ready(void) { return csr_read(CSR_LMSGSRDY); }

/* The time in nanoseconds. */
static inline uint64_t time_ns(void) { return csr_read(CSR_TIME); }

/* Sets the time of the core's timer, for a program on one core. */
static inline void timer_at(uint64_t nanoseconds) {
  *(volatile uint64_t *)MTIMECMP = nanoseconds;
}

/* Waits until a message is there, or until the time of the timer. */
static inline void net_wait_or_timer(void) {
  while (csr_read(CSR_LMSGSRDY) == 0 && (csr_read(CSR_MIP) & TIMER_INTERRUPT) == 0)
    csr_write(CSR_LNICUCMD, 2); /* lidle */
}

/* The next word of the message. The first is the application header. */
static inline uint64_t net_read(void) {
  uint64_t word;
  __asm__ volatile("mv %0, x30" : "=r"(word)::"memory");
  return word;
}

/* Appends a word to the message that is sent. The first is the application header. */
static inline void net_write(uint64_t word) {
  __asm__ volatile("mv x31, %0" ::"r"(word) : "memory");
}

/* Says that the message is processed. All of its words are read, and the reply is whole. */
static inline void net_done(void) { csr_write(CSR_LNICUCMD, 1); /* lmsgdone */ }

/* Application header: IPv4 address, context and length in bytes of the other end. */
static inline uint64_t net_header(uint32_t address, uint16_t context, uint16_t bytes) {
  return (uint64_t)address << 32 | (uint64_t)context << 16 | bytes;
}

static inline uint16_t net_length(uint64_t header) { return (uint16_t)header; }

/* Words of a message without its header. */
static inline uint64_t net_words(uint64_t header) { return (net_length(header) + 7u) / 8; }

#endif
