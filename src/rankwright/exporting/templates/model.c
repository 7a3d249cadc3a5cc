/* A ranking model of ${n_trees} trees and ${n_features} features, written by rankwright. It is C99 and needs no library.
 *
 * A document with a higher score ranks higher within its query. Features are in the order of ${name}_feature_names;
 * NaN is a missing value, and a category is its code. Do not compile with -ffast-math: it assumes that nothing is NaN.
 */
${includes}

#define N_TREES ${n_trees}
#define N_FEATURES ${n_features}
#define ZERO 1.0000000180025095e-35 /* smaller numbers count as zero where a node says that zero is missing */

/* The root of each tree: a node, or -1 - leaf. */
${root}
/* A node looks at a feature x and goes left if x <= bound; its rule is a sum of
 *   1  a missing x goes left (else right)
 *   2  zero is missing too
 *   4  x is a category that goes left if it is in the node's set: bits set_start[node] * 32 and following of sets */
${feature}
${bound}
${rule}
/* Children: a node, or -1 - leaf. */
${left}
${right}
${set_start}
${sets}
${value}
/* Names of the features, in the order in which the functions expect them. */
extern const char *const ${name}_feature_names[];
const char *const ${name}_feature_names[] = {
${names}
};

static int goes_left(int32_t node, double x)
{
    const unsigned kind = rule[node];
    if (x != x || ((kind & 2u) && x <= ZERO && x >= -ZERO))
        return (int)(kind & 1u);
    if (kind & 4u) {
        const double bits = 32.0 * (double)(set_start[node + 1] - set_start[node]);
        if (!(x > -1.0 && x < bits))
            return 0;
        const uint32_t category = (uint32_t)(int32_t)x;
        return (int)(sets[set_start[node] + (int32_t)(category / 32u)] >> (category % 32u) & 1u);
    }
    return x <= bound[node];
}

static double score_of(const double *features)
{
    double score = 0.0;
    for (int32_t tree = 0; tree < N_TREES; ++tree) {
        int32_t node = root[tree];
        while (node >= 0)
            node = goes_left(node, features[feature[node]]) ? left[node] : right[node];
        score += value[-1 - node];
    }
    return score;
}

${functions}
