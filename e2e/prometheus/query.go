package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// input is what query reads, as JSON.
type input struct {
	// Scrapes are texts of a metrics endpoint, in their order. Each is stored as if it had been
	// scraped Interval after the one before it.
	Scrapes []string `json:"scrapes"`
	// Interval is in seconds.
	Interval int `json:"interval"`
	// Labels are those of the target.
	Labels map[string]string `json:"labels"`
	// Queries are run at the time of the last scrape.
	Queries []string `json:"queries"`
}

// answer is the result of a query.
type answer struct {
	Error string `json:"error,omitempty"`
	// Series are the labels of the series, with their values.
	Series map[string]float64 `json:"series,omitempty"`
}

// query stores scrapes and runs queries.
func query(ctx context.Context, from io.Reader, to io.Writer) (err error) {
	in := input{}
	if err := json.NewDecoder(from).Decode(&in); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "prometheus-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	last := time.Now()
	for i, text := range in.Scrapes {
		at := last.Add(-time.Duration((len(in.Scrapes)-1-i)*in.Interval) * time.Second)
		if err := store(ctx, db, text, in.Labels, at); err != nil {
			return fmt.Errorf("store scrape %d: %w", i, err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
	})
	answers := make([]answer, len(in.Queries))
	for i, text := range in.Queries {
		answers[i] = ask(ctx, engine, db, text, last)
	}
	return json.NewEncoder(to).Encode(answers)
}

// store stores a scrape.
func store(ctx context.Context, db *tsdb.DB, text string, target map[string]string, at time.Time) error {
	p, err := textparse.New([]byte(text), "text/plain", nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	appender := db.Appender(ctx)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return appender.Commit()
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := p.Series()
		var series labels.Labels
		p.Labels(&series)
		b := labels.NewBuilder(series)
		for name, value := range target {
			b.Set(name, value)
		}
		if _, err := appender.Append(0, b.Labels(), at.UnixMilli(), value); err != nil {
			return err
		}
	}
}

// ask runs a query.
func ask(ctx context.Context, engine *promql.Engine, db *tsdb.DB, text string, at time.Time) answer {
	q, err := engine.NewInstantQuery(ctx, db, nil, text, at)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return answer{Error: result.Err.Error()}
	}
	found := answer{Series: map[string]float64{}}
	switch value := result.Value.(type) {
	case promql.Vector:
		for _, sample := range value {
			if sample.F == sample.F { // NaN is no value
				found.Series[sample.Metric.String()] = sample.F
			}
		}
	case promql.Scalar:
		found.Series["{}"] = value.V
	default:
		found.Error = fmt.Sprintf("the query returns a %s", result.Value.Type())
	}
	return found
}
