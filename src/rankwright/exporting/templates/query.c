#define N_GIVEN ${n_given} /* numbers that are given for a document; features within the query follow the given ones */
#define N_SOURCES ${n_sources}
#define N_KINDS 7
/* Features within the query: the feature that each is computed from, and where its rank, z, gap, share, mean, max and
 * reciprocal rank are written to, -1 for nowhere. */
${source}
${target}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rounds to 32 bits, as in training; what is too large for them becomes the largest number that is not. */
static double rounded(double x)
{
    return (double)(float)(x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x);
}

/* Returns how many of m ascending values are below x, or not above it. */
static size_t count(const double *values, size_t m, double x, int or_equal)
{
    size_t low = 0, high = m;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (values[middle] < x || (or_equal && values[middle] == x))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void put(double *row, const int32_t *to, int kind, double x)
{
    if (to[kind] >= 0)
        row[to[kind]] = x;
}

/* Computes the features within the query behind the given ones of each row; values has room for a number per row. */
static void fill(double *rows, size_t n_rows, double *values)
{
    for (int32_t s = 0; s < N_SOURCES; ++s) {
        const int32_t *to = within_target + N_KINDS * s;
        size_t m = 0;
        for (size_t i = 0; i < n_rows; ++i) {
            const double x = rows[i * N_FEATURES + (size_t)within_source[s]];
            if (x == x)
                values[m++] = x;
        }
        qsort(values, m, sizeof(double), ascending);
        const double highest = m ? values[m - 1] : 0.0, lowest = m ? values[0] : 0.0;
        const double biggest = fabs(highest) > fabs(lowest) ? fabs(highest) : fabs(lowest);
        const double scale = (biggest > 1.0 / 1e150 && biggest < 1e150) || biggest == 0.0 ? 1.0 : biggest;
        const double bottom = lowest / scale;
        double mean = 0.0, magnitude = 0.0, above = 0.0, spread = 0.0;
        for (size_t i = 0; i < m; ++i) {
            mean += values[i] / scale;
            magnitude += fabs(values[i] / scale);
            above += values[i] / scale - bottom;
        }
        mean /= (double)m;
        above /= (double)m;
        if (highest != lowest) {
            for (size_t i = 0; i < m; ++i) {
                const double apart = values[i] / scale - bottom - above;
                spread += apart * apart;
            }
            spread = sqrt(spread / (double)m);
        } else {
            mean = bottom;
        }
        for (size_t i = 0; i < n_rows; ++i) {
            double *row = rows + i * N_FEATURES;
            const double x = row[within_source[s]];
            if (x != x) {
                for (int kind = 0; kind < N_KINDS; ++kind)
                    put(row, to, kind, x);
                continue;
            }
            const size_t below = count(values, m, x, 0), up_to = count(values, m, x, 1);
            const double rank = (double)(m - up_to) + 0.5 * (double)(up_to - below + 1);
            put(row, to, 0, rounded(rank));
            put(row, to, 1, spread > 0.0 ? rounded((x / scale - bottom - above) / spread) : 0.0);
            put(row, to, 2, rounded(highest - x));
            put(row, to, 3, magnitude > 0.0 ? rounded(x / scale / magnitude) : 0.0);
            put(row, to, 4, rounded(mean * scale));
            put(row, to, 5, rounded(highest));
            put(row, to, 6, rounded(1.0 / (60.0 + rank)));
        }
    }
}

${linear}
/* Writes the scores of all documents of one query${note}. Their features follow each other. Returns 0, or -1 if there
 * is no memory for them. */
int ${name}_score_query(const double *features, size_t n_rows, double *scores);
int ${name}_score_query(const double *features, size_t n_rows, double *scores)
{
    if (n_rows == 0)
        return 0;
    double *rows = malloc(n_rows * N_FEATURES * sizeof(double));
    double *values = malloc(n_rows * sizeof(double));
    if (rows && values) {
        for (size_t i = 0; i < n_rows; ++i)
            memcpy(rows + i * N_FEATURES, features + i * N_GIVEN, N_GIVEN * sizeof(double));
        fill(rows, n_rows, values);
        for (size_t i = 0; i < n_rows; ++i)
            scores[i] = 0.0;
        ${add_linear}
        for (size_t i = 0; i < n_rows; ++i)
            scores[i] = ${start}scores[i] + score_of(rows + i * N_FEATURES);
    }
    const int result = rows && values ? 0 : -1;
    free(rows);
    free(values);
    return result;
}
