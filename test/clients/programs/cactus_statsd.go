package main

import (
	"os"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	client, err := statsd.NewClientWithConfig(&statsd.ClientConfig{
		Address:     "127.0.0.1:" + os.Getenv("STATSD_PORT"),
		Prefix:      "cactus",
		UseBuffered: true,
	})
	must(err)
	must(client.Inc("hits", 3, 1))
	must(client.Gauge("depth", 4, 1))
	must(client.TimingDuration("took", 320*time.Millisecond, 1))
	must(client.Close())
}
