package main

import (
	"os"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	client, err := statsd.New("127.0.0.1:"+os.Getenv("STATSD_PORT"),
		statsd.WithNamespace("go_datadog."),
		statsd.WithTags([]string{"app:a"}),
		statsd.WithExtendedClientSideAggregation(),
		statsd.WithoutTelemetry())
	must(err)
	for at := 0; at < 50; at++ {
		must(client.Count("hits", 2, []string{"dc:eu"}, 1))
		must(client.Timing("took", 320*time.Millisecond, nil, 1))
		must(client.Distribution("spread", float64(at), nil, 1))
	}
	must(client.Gauge("depth", 2.5, nil, 1))
	must(client.Close())
}
