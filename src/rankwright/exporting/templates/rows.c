#define N_GIVEN ${n_given}

/* Returns the score of one document${note}. */
double ${name}_score(const double *features);
/* Writes the scores of documents whose features follow each other. */
void ${name}_score_rows(const double *features, size_t n_rows, double *scores);

double ${name}_score(const double *features)
{
    return ${start}score_of(features);
}

void ${name}_score_rows(const double *features, size_t n_rows, double *scores)
{
    for (size_t row = 0; row < n_rows; ++row)
        scores[row] = ${name}_score(features + row * N_GIVEN);
}
