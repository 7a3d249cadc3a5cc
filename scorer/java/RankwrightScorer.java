import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Scores documents with the file of {@code rankwright export --to json}.
 *
 * <pre>java RankwrightScorer.java model.json &lt; rows.json</pre>
 *
 * rows.json has an array of rows, and null for a missing value. The scores are printed one per line.
 */
public final class RankwrightScorer {
    private record Tree(int[] feature, double[] threshold, String[] decision, String[] missing,
            boolean[] defaultLeft, int[] left, int[] right, int[][] categories, double[] value) {}

    private final List<?> features;
    private final double zero;
    private final List<Tree> trees = new ArrayList<>();

    public RankwrightScorer(String text) {
        Map<?, ?> model = (Map<?, ?>) new Json(text).value();
        if (!"rankwright-trees".equals(model.get("format")) || (double) model.get("version") != 1) {
            throw new IllegalArgumentException("the file is not of version 1; export it again.");
        }
        features = (List<?>) model.get("features");
        zero = (double) model.get("zero");
        for (Object entry : (List<?>) model.get("trees")) {
            trees.add(tree((Map<?, ?>) entry));
        }
    }

    private static Tree tree(Map<?, ?> tree) {
        List<?> defaults = (List<?>) tree.get("default_left");
        boolean[] defaultLeft = new boolean[defaults.size()];
        for (int node = 0; node < defaultLeft.length; node++) {
            defaultLeft[node] = (boolean) defaults.get(node);
        }
        // Categories ascend, so a set is searched by halving.
        int[][] categories = ((List<?>) tree.get("categories")).stream()
                .map(RankwrightScorer::integers).toArray(int[][]::new);
        return new Tree(integers(tree.get("feature")), numbers(tree.get("threshold")),
                texts(tree.get("decision")), texts(tree.get("missing")), defaultLeft,
                integers(tree.get("left")), integers(tree.get("right")), categories,
                numbers(tree.get("value")));
    }

    /** Returns the score of a document, its values in the order of the features, NaN if missing. */
    public double score(double[] row) {
        if (row.length != features.size()) {
            throw new IllegalArgumentException("give " + features.size() + " values per row.");
        }
        double sum = 0; // sums depend on the order: the trees are added one after the other
        for (Tree tree : trees) {
            int node = tree.feature.length > 0 ? 0 : -1;
            while (node >= 0) {
                node = goesLeft(tree, node, row) ? tree.left[node] : tree.right[node];
            }
            sum += tree.value[-1 - node];
        }
        return sum;
    }

    private boolean goesLeft(Tree tree, int node, double[] row) {
        double x = row[tree.feature[node]];
        String missing = tree.missing[node];
        String decision = tree.decision[node];
        if (Double.isNaN(x)) {
            if (!missing.equals("as_zero")) return tree.defaultLeft[node];
            x = 0;
        } else if (decision.equals("at_most") && Math.abs(x) <= zero) {
            if (missing.equals("zero_to_default")) return tree.defaultLeft[node];
            x = 0;
        }
        if (decision.equals("at_most")) return x <= tree.threshold[node];
        if (decision.equals("below")) return (float) x < (float) tree.threshold[node];
        return Arrays.binarySearch(tree.categories[node], (int) x) >= 0;
    }

    private static double[] numbers(Object list) { // null is a missing value
        return ((List<?>) list).stream().mapToDouble(
                x -> x == null ? Double.NaN : Double.parseDouble(x.toString())).toArray();
    }

    private static int[] integers(Object list) {
        return ((List<?>) list).stream().mapToInt(x -> ((Double) x).intValue()).toArray();
    }

    private static String[] texts(Object list) {
        return ((List<?>) list).toArray(String[]::new);
    }

    /** A parser of JSON, for programs without a library of their own. */
    private static final class Json {
        private final String text;
        private int at = 0;

        Json(String text) {
            this.text = text;
        }

        Object value() {
            char first = next();
            if (first == '"') return string();
            if (first == '[') {
                List<Object> list = new ArrayList<>();
                for (at++; next() != ']'; skip(',')) list.add(value());
                at++;
                return list;
            }
            if (first == '{') {
                Map<String, Object> object = new LinkedHashMap<>();
                for (at++; next() != '}'; skip(',')) {
                    String name = string();
                    next();
                    skip(':');
                    object.put(name, value());
                }
                at++;
                return object;
            }
            int start = at;
            while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(start, at);
            if (word.equals("null")) return null;
            return first == 't' || first == 'f' ? (Object) word.equals("true") : Double.valueOf(word);
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char c = text.charAt(at);
                if (c == '\\') {
                    c = text.charAt(++at);
                    if (c == 'u') {
                        c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                        at += 4;
                    } else if ("bfnrt".indexOf(c) >= 0) {
                        c = "\b\f\n\r\t".charAt("bfnrt".indexOf(c));
                    }
                }
                out.append(c);
            }
            at++;
            return out.toString();
        }

        private char next() {
            while (Character.isWhitespace(text.charAt(at))) at++;
            return text.charAt(at);
        }

        private void skip(char separator) {
            if (next() == separator) at++;
        }
    }

    public static void main(String[] arguments) throws IOException {
        RankwrightScorer scorer = new RankwrightScorer(Files.readString(Path.of(arguments[0])));
        String rows = new String(System.in.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        StringBuilder scores = new StringBuilder();
        for (Object row : (List<?>) new Json(rows).value()) {
            scores.append(scorer.score(numbers(row))).append('\n');
        }
        System.out.print(scores);
    }
}
