/* Bytes in memory: numbers of any place, copies, and CRC-32C. A misaligned access costs a trap on
 * the model's core, so words are put together from aligned ones. */
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>

/* Words of memory, which may have bytes of other types. */
typedef uint64_t __attribute__((may_alias)) word_t;

/* The bytes of a word in the other order. */
static inline uint64_t swapped(uint64_t word) {
  const uint64_t bytes = 0x00ff00ff00ff00ff, halves = 0x0000ffff0000ffff;
  word = (word >> 8 & bytes) | (word & bytes) << 8;
  word = (word >> 16 & halves) | (word & halves) << 16;
  return word >> 32 | word << 32;
}

/* A little-endian number of 8 bytes at any place. It reads the aligned words around it. */
static inline uint64_t load64(const uint8_t *at) {
  uintptr_t place = (uintptr_t)at & 7;
  const word_t *words = (const word_t *)(at - place);
  if (place == 0)
    return words[0];
  return words[0] >> 8 * place | words[1] << (64 - 8 * place);
}

static inline void put64(uint8_t *at, uint64_t value) {
  for (unsigned i = 0; i < 8; i++)
    at[i] = value >> 8 * i;
}

/* Copies bytes. The places do not overlap. */
static inline void copy(uint8_t *to, const uint8_t *from, unsigned bytes) {
  for (; bytes > 0 && ((uintptr_t)to & 7) != 0; bytes--)
    *to++ = *from++;
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
    *(word_t *)to = load64(from);
  for (; bytes > 0; bytes--) {
    __asm__ volatile("" : "+r"(to)); /* no call of memcpy, which programs do not have */
    *to++ = *from++;
  }
}

static uint32_t crc32c_table[8][256];

static inline void crc32c_begin(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1));
    crc32c_table[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; byte++)
    for (int table = 1; table < 8; table++) {
      uint32_t crc = crc32c_table[table - 1][byte];
      crc32c_table[table][byte] = crc >> 8 ^ crc32c_table[0][crc & 0xff];
    }
}

static inline uint32_t crc32c_byte(uint32_t crc, uint8_t byte) {
  return crc >> 8 ^ crc32c_table[0][(crc ^ byte) & 0xff];
}

/* CRC-32C, eight bytes at a time. */
static uint32_t crc32c(const uint8_t *at, unsigned bytes) {
  uint32_t crc = 0xffffffff;
  for (; bytes > 0 && ((uintptr_t)at & 7) != 0; bytes--)
    crc = crc32c_byte(crc, *at++);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word = *(const word_t *)at ^ crc;
    crc = crc32c_table[7][word & 0xff] ^ crc32c_table[6][word >> 8 & 0xff] ^
          crc32c_table[5][word >> 16 & 0xff] ^ crc32c_table[4][word >> 24 & 0xff] ^
          crc32c_table[3][word >> 32 & 0xff] ^ crc32c_table[2][word >> 40 & 0xff] ^
          crc32c_table[1][word >> 48 & 0xff] ^ crc32c_table[0][word >> 56];
  }
  for (; bytes > 0; bytes--)
    crc = crc32c_byte(crc, *at++);
  return ~crc;
}

#endif
