#define N_COMPARED ${n_compared}
/* The linear ranker that the scores start from. For each column that it compares: the column, the places of its rank and
 * z, and the coefficients of rank, z and a missing value. Its terms are multiples of a unit and their sums exact. */
${compared}
${rank_at}
${z_at}
${of_rank}
${of_z}
${of_missing}

static double on_grid(double x)
{
    return rint(x * ${steps}.0) / ${steps}.0;
}

/* Adds the linear ranker to the scores of the documents of a query, whose features within the query are filled. */
static void add_linear(const double *rows, size_t n_rows, double *scores)
{
    for (int32_t c = 0; c < N_COMPARED; ++c) {
        size_t m = 0;
        for (size_t i = 0; i < n_rows; ++i) {
            const double x = rows[i * N_FEATURES + (size_t)compared[c]];
            m += x == x;
        }
        for (size_t i = 0; i < n_rows; ++i) {
            const double *row = rows + i * N_FEATURES;
            const double x = row[compared[c]];
            if (x != x) {
                scores[i] += of_missing[c];
                continue;
            }
            const double span = m > 1 ? (double)(m - 1) : 1.0, z = row[z_at[c]];
            scores[i] += of_rank[c] * on_grid((0.5 * (double)(m + 1) - row[rank_at[c]]) / span);
            scores[i] += of_z[c] * on_grid((z > 4.0 ? 4.0 : z < -4.0 ? -4.0 : z) / 4.0);
        }
    }
}
