/* Sources that speak to many destinations (paper, table 2: super-spreaders and port scans). A report
 * has a source and a destination address, 4 bytes each. Each source of a table has 64 bits, of which
 * the destination's hash sets one. When more than half of them are set, the source spreads: a
 * command of 8 bytes, the source and its bits set, goes once to context 1 of the sender. */
#include "nanopu.h"

#define SOURCES 1024
#define LIMIT 32

static struct source {
  uint32_t address;
  uint8_t set;
  uint8_t is_reported;
  uint64_t bits;
} sources[SOURCES];

static uint32_t hash(uint32_t value) { return value * 0x9e3779b1u; }

int main(void) {
  net_bind(0, 0);
  for (;;) {
    net_wait();
    uint64_t header = net_read();
    uint64_t report = net_read();
    for (uint64_t words = net_words(header); words > 1; words--)
      net_read();
    uint32_t address = report >> 32, destination = report;
    struct source *source = &sources[hash(address) >> 22];
    /* Of two sources in one place, the newer one begins again. */
    if (source->address != address)
      *source = (struct source){.address = address};
    uint64_t bit = 1ull << (hash(destination) >> 26);
    if ((source->bits & bit) == 0) {
      source->bits |= bit;
      source->set++;
    }
    if (source->set > LIMIT && !source->is_reported) {
      source->is_reported = 1;
      net_write(net_header(header >> 32, 1, 8));
      net_write((uint64_t)address << 32 | source->set);
    }
    net_done();
  }
}
