//! The middle of a country, to whole degrees: the rung below a position ([htrae 2.9]).

use cavy_coords::Point;

/// ISO 3166 code, latitude, longitude. Rough by design: whoever stands on this rung is off by
/// hundreds of kilometers anyway, and what is measured moves him.
const MIDDLES: &str = "AE 24 54,AF 34 66,AL 41 20,AM 40 45,AO -12 18,AR -34 -64,AT 47 14,\
    AU -25 134,AZ 40 48,BA 44 18,BD 24 90,BE 51 5,BF 12 -2,BG 43 25,BH 26 51,BJ 9 2,BN 5 115,\
    BO -17 -65,BR -10 -55,BT 27 90,BW -22 24,BY 53 28,BZ 17 -89,CA 56 -96,CD -3 24,CG -1 15,\
    CH 47 8,CI 8 -6,CL -33 -71,CM 6 13,CN 35 105,CO 4 -73,CR 10 -84,CU 22 -79,CY 35 33,CZ 50 15,\
    DE 51 10,DK 56 10,DO 19 -71,DZ 28 3,EC -1 -78,EE 59 26,EG 27 30,ES 40 -4,ET 9 40,FI 62 26,\
    FJ -18 178,FR 46 2,GA -1 12,GB 54 -2,GE 42 44,GH 8 -1,GM 13 -15,GN 11 -11,GR 39 22,GT 15 -90,\
    GY 5 -59,HK 22 114,HN 15 -87,HR 45 16,HT 19 -72,HU 47 19,ID -3 118,IE 53 -8,IL 31 35,\
    IN 22 79,IQ 33 44,IR 32 54,IS 65 -18,IT 43 12,JM 18 -77,JO 31 36,JP 36 138,KE 0 38,KG 41 75,\
    KH 13 105,KR 36 128,KW 29 48,KZ 48 67,LA 18 104,LB 34 36,LK 7 81,LT 55 24,LU 50 6,LV 57 25,\
    LY 27 17,MA 32 -6,MD 47 29,ME 43 19,MG -20 47,MK 42 22,ML 17 -4,MM 21 96,MN 47 104,MO 22 114,\
    MT 36 14,MU -20 58,MV 3 73,MX 23 -102,MY 4 109,MZ -18 35,NA -22 17,NE 17 8,NG 9 8,NI 13 -85,\
    NL 52 5,NO 62 10,NP 28 84,NZ -41 174,OM 21 56,PA 9 -80,PE -10 -76,PG -6 145,PH 12 122,\
    PK 30 70,PL 52 20,PR 18 -66,PS 32 35,PT 40 -8,PY -23 -58,QA 25 51,RE -21 56,RO 46 25,\
    RS 44 21,RU 60 60,RW -2 30,SA 24 45,SD 15 30,SE 62 15,SG 1 104,SI 46 15,SK 49 20,SN 14 -14,\
    SO 6 46,SV 14 -89,SY 35 38,TG 8 1,TH 15 101,TJ 39 71,TM 40 60,TN 34 9,TR 39 35,TT 11 -61,\
    TW 24 121,TZ -6 35,UA 49 32,UG 1 32,US 39 -98,UY -33 -56,UZ 41 64,VE 7 -66,VN 16 107,\
    YE 15 48,ZA -29 25,ZM -13 28,ZW -19 30";

/// The middle of the country with this code; `None` when it is none of those known here.
pub fn middle(code: &str) -> Option<Point> {
    MIDDLES.split(',').find_map(|row| {
        let mut words = row.split(' ');
        (words.next()? == code).then_some(())?;
        let (latitude, longitude) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Point::from_degrees(latitude, longitude)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_code_and_a_place_in_order() {
        let codes: Vec<&str> = MIDDLES.split(',').filter_map(|row| row.split(' ').next()).collect();
        assert!(codes.is_sorted() && codes.len() > 140, "{}", codes.len());
        for code in codes {
            assert!(code.len() == 2 && middle(code).is_some(), "{code}");
        }
        assert_eq!(middle("XX"), None);
    }
}
