// Measures the distances and updates of serf's own package, in turns with src/main.rs, which writes
// coordinates and pairs to a file and asks for each turn on a line.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/hashicorp/serf/coordinate"
	"golang.org/x/sys/unix"
)

// CPU time of the whole program: its collector of garbage is a part of what it costs.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

type step struct {
	A, B uint32
	RTT  float64
}

func read(from io.Reader, into any) {
	if err := binary.Read(from, binary.LittleEndian, into); err != nil {
		panic(err)
	}
}

func client(config *coordinate.Config, at *coordinate.Coordinate) *coordinate.Client {
	one, err := coordinate.NewClient(config)
	if err != nil {
		panic(err)
	}
	if err := one.SetCoordinate(at); err != nil {
		panic(err)
	}
	return one
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	from := bufio.NewReader(file)
	var counts [4]uint32
	read(from, &counts)
	all := make([]*coordinate.Coordinate, counts[0])
	for i := range all {
		var parts [11]float64
		read(from, &parts)
		all[i] = &coordinate.Coordinate{
			Vec: parts[:8:8], Height: parts[8], Error: parts[9], Adjustment: parts[10],
		}
	}
	pairs := make([][2]uint32, counts[1])
	read(from, pairs)
	steps := make([]step, counts[3])
	read(from, steps)
	file.Close()
	runtime.GC()

	version := "serf"
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, one := range built.Deps {
			if one.Path == "github.com/hashicorp/serf" {
				version = "serf " + one.Version + " by " + built.GoVersion
			}
		}
	}
	fmt.Println(version)
	names := make([]string, counts[2])
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	distances := func(pairs [][2]uint32) {
		sum := 0.0
		begun := cpu()
		for _, pair := range pairs {
			sum += all[pair[0]].DistanceTo(all[pair[1]]).Seconds()
		}
		fmt.Println(float64(cpu()-begun)/float64(len(pairs)), sum)
	}
	half := len(pairs) / 2
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		switch asked.Text() {
		case "far":
			distances(pairs[:half])
		case "near":
			distances(pairs[half:])
		case "update":
			config := coordinate.DefaultConfig()
			clients := make([]*coordinate.Client, counts[2])
			for i := range clients {
				clients[i] = client(config, all[i])
			}
			begun := cpu()
			for _, one := range steps {
				rtt := time.Duration(one.RTT*1e9 + 0.5)
				peer := clients[one.B].GetCoordinate()
				if _, err := clients[one.A].Update(names[one.B], peer, rtt); err != nil {
					panic(err)
				}
			}
			took := cpu() - begun
			sum := 0.0
			for _, one := range clients {
				sum += one.GetCoordinate().Height
			}
			fmt.Println(float64(took)/float64(len(steps)), sum)
		}
	}
}
