/* Packet classification by an image that `polyplane nanopu image` writes and `--data` places after
 * the program (paper, 3.1.1). A request has one word for each limb of the key: for five-tuples
 * source and destination address, source and destination port, protocol. The answer is a word: the
 * number of the rule that wins, or all ones. A message of another length has all ones too.
 *
 * docs/reference/classifier-image.md has the layout of the image. */
#include "nanopu.h"

#define MAGIC 0x315353414c435050 /* "PPCLASS1" */
#define MAX_WORDS 8
#define NONE UINT64_MAX

/* Offset from the begin of the image, and number of elements. */
struct array {
  uint32_t at, count;
};

struct image {
  uint64_t magic;
  uint32_t bytes, rules, words, record_bytes;
  struct array places, values, ranges, sets, parts, heads, windows, tuples;
};

struct place {
  uint32_t word, shift;
};

struct range {
  uint32_t word, shift;
  uint64_t mask;
};

struct set {
  uint32_t word, shift, last, root_shift, second, last_leaf, submodels, leaves, starts, records;
  uint64_t mask;
};

#define PIECES 8

struct submodel {
  uint32_t knots[PIECES], values[PIECES], slopes[PIECES];
};

struct leaf {
  uint32_t knot, slope;
  int32_t value;
  uint32_t span;
};

struct part {
  uint32_t word, shift, classes, starts, rows, reserved;
  uint64_t mask;
};

struct window {
  uint32_t word, shift, row_of, rows;
  uint64_t mask;
};

struct tuple {
  uint32_t best, shift, starts, records;
  uint64_t mask[];
};

static const uint64_t factors[MAX_WORDS] = {
    0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0xd6e8feb86659fd93,
    0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3};

static inline const void *at(const struct image *image, uint32_t offset) {
  return (const char *)image + offset;
}

/* A number of the key. */
static inline uint64_t field(const uint64_t *key, uint32_t word, uint32_t shift, uint64_t mask) {
  return key[word] >> shift & mask;
}

/* Improves the head of the best rule by a record, if its rule matches. */
static inline uint64_t compare(const struct image *image, const uint64_t *key,
                               const uint64_t *record, uint64_t best) {
  uint32_t words = image->words;
  const uint64_t *a = record + 1, *b = a + words;
  const uint64_t *values = at(image, image->values.at);
  uint64_t head = record[0];
  if (head >= best)
    return best;
  for (uint32_t word = 0; word < words; word++)
    if (((key[word] ^ a[word]) & b[word] & values[word]) != 0)
      return best;
  const struct range *range = at(image, image->ranges.at);
  for (const struct range *end = range + image->ranges.count; range < end; range++) {
    uint64_t number = field(key, range->word, range->shift, range->mask);
    if (number < field(a, range->word, range->shift, range->mask) ||
        number > field(b, range->word, range->shift, range->mask))
      return best;
  }
  return head;
}

/* Value of a line in units of 2^-32, at a number that may be before its begin. */
static inline uint64_t line(uint32_t x, uint32_t knot, uint32_t slope) {
  return x <= knot ? 0 : (uint64_t)(x - knot) * slope >> 32;
}

/* A position by a submodel. Pieces are in order. */
static inline uint64_t evaluate(const struct submodel *it, uint32_t x) {
  unsigned piece = it->knots[4] <= x ? 4 : 0;
  piece += it->knots[piece + 2] <= x ? 2 : 0;
  piece += it->knots[piece + 1] <= x ? 1 : 0;
  uint64_t value = it->values[piece] + line(x, it->knots[piece], it->slopes[piece]);
  return value > UINT32_MAX ? UINT32_MAX : value;
}

/* Compares the only rule of an independent set that may match. */
static inline uint64_t search_set(const struct image *image, const struct set *set,
                                  const uint64_t *key, uint64_t best) {
  uint32_t x = field(key, set->word, set->shift, set->mask);
  const struct submodel *submodels = at(image, set->submodels);
  uint64_t second = evaluate(submodels, x) >> set->root_shift;
  uint64_t which = second < set->second ? evaluate(submodels + 1 + second, x) >> 5 : 0;
  const struct leaf *leaf = at(image, set->leaves);
  leaf += which < set->last_leaf ? which : set->last_leaf;
  int64_t found = (int64_t)line(x, leaf->knot, leaf->slope) + leaf->value;
  uint64_t first = found < 0 ? 0 : found < set->last ? found : set->last;
  uint64_t last = first + leaf->span < set->last ? first + leaf->span : set->last;
  const uint32_t *starts = at(image, set->starts);
  while (first < last) {
    uint64_t middle = (first + last + 1) / 2;
    if (starts[middle] <= x)
      first = middle;
    else
      last = middle - 1;
  }
  const char *records = at(image, set->records);
  return compare(image, key, (const uint64_t *)(records + first * image->record_bytes), best);
}

/* Number of the lowest one of a word that is not 0. */
static inline unsigned lowest(uint64_t word) {
  static const uint8_t places[64] = {
      0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
      22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
      23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
  return places[(word & -word) * 0x022fdd63cc95386d >> 58];
}

/* Finds the first of the rules in bit vectors that all parts of the key admit. */
static inline uint64_t search_vectors(const struct image *image, const uint64_t *key,
                                      uint64_t best) {
  uint32_t words = (image->heads.count + 63) / 64;
  uint64_t row[8];
  const uint64_t *heads = at(image, image->heads.at);
  /* The best rule is the first one. */
  if (words == 0 || heads[0] >= best)
    return best;
  for (uint32_t word = 0; word < words; word++)
    row[word] = NONE;
  if (image->heads.count % 64 != 0)
    row[words - 1] = NONE >> (64 - image->heads.count % 64);
  const struct part *part = at(image, image->parts.at);
  for (const struct part *end = part + image->parts.count; part < end; part++) {
    uint64_t number = field(key, part->word, part->shift, part->mask);
    uint64_t class = number;
    if (part->classes > 0) {
      const uint64_t *starts = at(image, part->starts);
      uint64_t last = part->classes - 1;
      class = 0;
      while (class < last) {
        uint64_t middle = (class + last + 1) / 2;
        if (starts[middle] <= number)
          class = middle;
        else
          last = middle - 1;
      }
    }
    const uint64_t *of_class = at(image, part->rows);
    of_class += class * words;
    uint64_t any = 0;
    for (uint32_t word = 0; word < words; word++)
      any |= row[word] &= of_class[word];
    if (any == 0)
      return best;
  }
  for (uint32_t word = 0; word < words; word++)
    if (row[word] != 0) {
      uint64_t head = heads[word * 64 + lowest(row[word])];
      return head < best ? head : best;
    }
  return best;
}

/* Searches the tuples that the windows admit. */
static inline uint64_t search_tuples(const struct image *image, const uint64_t *key,
                                     uint64_t best) {
  uint32_t words = image->words;
  uint64_t admitted = NONE;
  const struct window *window = at(image, image->windows.at);
  for (const struct window *end = window + image->windows.count; window < end; window++) {
    const uint16_t *row_of = at(image, window->row_of);
    const uint64_t *rows = at(image, window->rows);
    admitted &= rows[row_of[field(key, window->word, window->shift, window->mask)]];
  }
  if (image->tuples.count < 64)
    admitted &= ~(NONE << image->tuples.count);
  const char *tuples = at(image, image->tuples.at);
  uint32_t tuple_bytes = sizeof(struct tuple) + 8 * words;
  for (; admitted != 0; admitted &= admitted - 1) {
    const struct tuple *tuple = (const void *)(tuples + lowest(admitted) * tuple_bytes);
    if ((uint64_t)tuple->best << 32 >= best)
      continue;
    uint64_t hash = 0;
    for (uint32_t word = 0; word < words; word++)
      hash += (key[word] & tuple->mask[word]) * factors[word];
    hash >>= tuple->shift;
    const uint32_t *starts = at(image, tuple->starts);
    const char *records = at(image, tuple->records);
    const char *end = records + (uint64_t)starts[hash + 1] * image->record_bytes;
    for (records += (uint64_t)starts[hash] * image->record_bytes; records < end;
         records += image->record_bytes) {
      uint64_t head = *(const uint64_t *)records;
      if (head >= best)
        break;
      best = compare(image, key, (const uint64_t *)records, best);
      if (best == head)
        break;
    }
  }
  return best;
}

/* Reads a key from the message. */
static inline void read_key(const struct image *image, uint64_t *key) {
  for (uint32_t word = 0; word < image->words; word++)
    key[word] = 0;
  const struct place *place = at(image, image->places.at);
  for (const struct place *end = place + image->places.count; place < end; place++)
    key[place->word] |= net_read() << place->shift;
}

/* Number of the rule that wins for a key, or NONE. */
static inline uint64_t classify(const struct image *image, const uint64_t *key) {
  uint64_t best = NONE;
  const struct set *set = at(image, image->sets.at);
  for (const struct set *end = set + image->sets.count; set < end; set++)
    best = search_set(image, set, key, best);
  best = search_vectors(image, key, best);
  if (image->tuples.count > 0)
    best = search_tuples(image, key, best);
  return best == NONE ? NONE : (uint32_t)best;
}

extern const char __stacks_end[];

int main(void) {
  /* Data are on the first line after the program. */
  const struct image *image = (const void *)(((uintptr_t)__stacks_end + 63) & ~63ul);
  net_bind(0, 0);
  for (;;) {
    net_wait();
    uint64_t header = net_read();
    uint64_t answer = NONE, key[MAX_WORDS];
    if (image->magic == MAGIC && net_length(header) == 8 * image->places.count) {
      read_key(image, key);
      answer = classify(image, key);
    } else
      for (uint64_t words = net_words(header); words > 0; words--)
        net_read();
    net_write((header & ~0xfffful) | 8);
    net_write(answer);
    net_done();
  }
}
