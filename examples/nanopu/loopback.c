/* Loopback with increment (paper, figure 2): each word of a message plus one, to its sender. */
#include "nanopu.h"

int main(void) {
  net_bind(0, 0);
  for (;;) {
    net_wait();
    uint64_t header = net_read();
    net_write(header);
    for (uint64_t words = net_words(header); words > 0; words--)
      net_write(net_read() + 1);
    net_done();
  }
}
